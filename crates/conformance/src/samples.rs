//! Messages and tries to test with.

use std::time::Duration;

use bezoar_core::{
    Code, ContentType, CorrelationId, Detail, FailedTry, Failure, FailureKind, Message, MessageId,
    MessageType, Outgoing, Reason, Settlement, millis,
};

/// A plain message with its id as the body.
pub(crate) fn message(id: &str) -> Message {
    let message_type = MessageType::new("sample").expect("valid name");
    Message::new(message_id(id), message_type, millis(1_700_000_000_123), id.to_owned())
}

/// Plain messages with numbered ids of equal length, so that they sort.
pub(crate) fn messages(count: usize) -> Vec<Message> {
    (0..count).map(|number| message(&format!("m-{number:04}"))).collect()
}

/// A message with every field filled.
pub(crate) fn full_message(id: &str) -> Message {
    message(id)
        .caused_by(&message("cause of it"))
        .with_content_type(ContentType::new("application/json; charset=utf-8").expect("short"))
        .with_body(b"{\"value\": \xff\x00}".to_vec())
        .with_correlation_id(CorrelationId::new("c-7").expect("valid name"))
        .with_header("tenant", "St. Mary's")
        .with_header("empty", "")
}

pub(crate) fn message_id(id: &str) -> MessageId {
    MessageId::new(id).expect("ids of samples are short")
}

/// A message that is delivered after `delay`.
pub(crate) fn after(delay: Duration, message: Message) -> Outgoing {
    Outgoing::from(message).after(delay)
}

/// A failed try; different numbers give different tries.
pub(crate) fn failed_try(number: i64) -> FailedTry {
    let kind = FailureKind::ALL[number.unsigned_abs() as usize % FailureKind::ALL.len()];
    let detail = Detail::truncated(format!("no room\n\"{number}\" in ward é\0\t🏥"));
    let code = Code::new(format!("code-{number}")).expect("a valid code");
    let failure = Failure::with_detail(kind, detail).with_code(code);
    let duration = Duration::from_millis(number.unsigned_abs() * 7 + 1);
    FailedTry::new(millis(1_700_000_000_000 + number * 1_001), duration, &failure)
}

pub(crate) fn reason() -> Reason {
    Reason::new(Code::from_static("sample/reason"), "set aside by a “test”, 3 of 3 tries")
}

pub(crate) fn retry(after: Duration) -> Settlement {
    Settlement::Retry { after, tries: vec![failed_try(1)] }
}

pub(crate) fn dead_letter() -> Settlement {
    Settlement::DeadLetter { reason: reason(), tries: vec![failed_try(1)] }
}

pub(crate) fn release(after: Duration) -> Settlement {
    Settlement::Release { after }
}

/// The ids, sorted.
pub(crate) fn ids<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<MessageId> {
    let mut ids: Vec<_> = messages.into_iter().map(|message| message.id.clone()).collect();
    ids.sort();
    ids
}

/// Asserts that everything except the ledger is as it was sent.
#[track_caller]
pub(crate) fn assert_as_sent(received: &Message, sent: &Message) {
    let received = received.clone().with_ledger(sent.ledger.clone());
    assert_eq!(
        &received, sent,
        "body and fields arrive as they were sent, and no field is invented"
    );
}
