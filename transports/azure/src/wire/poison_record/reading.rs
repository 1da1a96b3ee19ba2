//! The dead letter in a text of a poison queue, whoever set it aside.

use bezoar_core::{
    Code, CorrelationId, DeadLetter, DeadLetterId, Detail, FailedTry, FailureKind, Ledger,
    MessageId, QueueName, Reason, Recognition, millis,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Ours, Record, letter_id,
    replay::{TEXT_HEADER, UNREADABLE, as_written, is_unreadable},
};
use crate::{
    ForeignText,
    connection::queue_client::Fetched,
    wire::{ledger, stored_text, stored_text::Content},
};

#[derive(Deserialize)]
struct Extra<'a> {
    #[serde(borrow, alias = "Bezoar")]
    dead: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Ledgered<'a> {
    #[serde(borrow)]
    ledger: Option<&'a RawValue>,
}

/// The dead letter in a text of the poison queue of `queue`, whoever set it aside.
pub(crate) fn read(queue: &QueueName, fetched: &Fetched, foreign: ForeignText) -> DeadLetter {
    let extra: Option<&RawValue> =
        serde_json::from_str::<Extra<'_>>(&fetched.text).ok().and_then(|it| it.dead);
    let ours = extra.and_then(|it| Some((serde_json::from_str::<Ours>(it.get()).ok()?, it)));
    let record: Option<Record> = serde_json::from_str(&fetched.text).ok();
    let mut letter = match record {
        Some(record) => of_record(queue, fetched, record, foreign),
        None => found(queue, fetched, &fetched.text, fetched.id.clone(), foreign),
    };
    if let Some((ours, raw)) = ours {
        letter.id = DeadLetterId::from_number(ours.letter);
        letter.at = millis(ours.at);
        letter.reason = Reason::new(Code::new(ours.code).unwrap_or(Code::UNKNOWN), ours.reason);
        let ledger = serde_json::from_str::<Ledgered<'_>>(raw.get()).ok().and_then(|it| it.ledger);
        letter.message.ledger = ledger.map(|it| ledger::read(it.get())).unwrap_or_default();
        if !is_unreadable(&letter.message) {
            letter.message.headers.remove(TEXT_HEADER);
        }
    }
    letter
}

/// A record without its message.
pub(crate) struct Unwrapped {
    pub(crate) message_id: String,
    pub(crate) text: String,
    /// The ledger of the message, if the record is ours.
    pub(crate) ledger: Option<Ledger>,
}

/// The message in a record, whoever set it aside; `None` if the text is no record.
pub(crate) fn unwrap(text: &str) -> Option<Unwrapped> {
    let record: Record = serde_json::from_str(text).ok()?;
    let ours = serde_json::from_str::<Extra<'_>>(text).ok().and_then(|it| it.dead);
    let ledger = ours.and_then(|it| serde_json::from_str::<Ledgered<'_>>(it.get()).ok());
    Some(Unwrapped {
        message_id: record.original_message_id,
        text: record.original_text,
        ledger: ledger.and_then(|it| it.ledger).map(|it| ledger::read(it.get())),
    })
}

/// A letter of which only a record without our part is known.
fn of_record(
    queue: &QueueName,
    fetched: &Fetched,
    record: Record,
    foreign: ForeignText,
) -> DeadLetter {
    let id = record.original_message_id;
    let mut letter = found(queue, fetched, &record.original_text, id, foreign);
    if let (None, Some(id)) = (&letter.message.correlation_id, record.correlation_id.as_str()) {
        letter.message.correlation_id = CorrelationId::new(id).ok();
    }
    letter.at = record.time.and_then(|it| it.parse().ok()).unwrap_or(letter.at);
    let deliveries = record.dequeue_count;
    letter.reason = Reason::new(
        Reason::REJECTED,
        format!("set aside by another program after {deliveries} deliveries"),
    );
    if record.error_type.is_some() || record.error_text.is_some() {
        let failed = FailedTry {
            generation: 0,
            attempt: deliveries,
            try_number: 1,
            started_at: letter.at,
            duration: std::time::Duration::ZERO,
            kind: FailureKind::Unknown,
            code: record.error_type.and_then(|it| Code::new(it).ok()).unwrap_or(Code::UNKNOWN),
            detail: Detail::truncated(record.error_text.unwrap_or_default()),
        };
        letter.message.ledger = Ledger::restored(deliveries, deliveries, 0, 0, vec![failed]);
    }
    letter
}

/// A letter of which only the text is known.
fn found(
    queue: &QueueName,
    fetched: &Fetched,
    text: &str,
    id: String,
    foreign: ForeignText,
) -> DeadLetter {
    let id = if MessageId::new(&id).is_ok() { id } else { fetched.id.clone() };
    let original = Fetched { text: text.to_owned(), id, dequeue_count: 1, ..fetched.clone() };
    let message = match stored_text::read(&original, foreign) {
        Content::Message(message) if stored_text::is_envelope(text) => *message,
        Content::Message(message) => as_written(*message, text),
        Content::Damaged | Content::Newer(_) => {
            stored_text::as_plain(&original).with_header(TEXT_HEADER, UNREADABLE)
        }
    };
    DeadLetter {
        id: letter_id(queue, &fetched.id),
        queue: queue.clone(),
        message,
        reason: Reason::new(Reason::REJECTED, "set aside by another program"),
        at: fetched.inserted_at,
        recognition: Recognition::Id,
    }
}
