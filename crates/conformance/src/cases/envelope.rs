//! Every field arrives as it was sent, and no field is invented.

use std::time::Duration;

use bezoar_core::{
    ContentType, CorrelationId, DeadLetterIds, Ledger, Message, MessageId, MessageType, QueueName,
    Settlement, millis,
};

use crate::{
    case::Case,
    samples::{assert_as_sent, dead_letter, failed_try, full_message, message, retry},
};

async fn round_trip(case: &Case, sent: Message) -> Message {
    case.send(sent.clone()).await;
    let received = case.worker().await.consume(1).await.remove(0);
    assert_as_sent(&received, &sent);
    received
}

pub(crate) async fn every_field_comes_back(case: Case) {
    let (sent, received) = (full_message("m-1"), round_trip(&case, full_message("m-1")).await);
    assert_eq!(received.id, sent.id, "the message id is kept");
    assert_eq!(received.message_type, sent.message_type, "the type is kept");
    assert_eq!(received.correlation_id, sent.correlation_id, "the correlation id is kept");
    assert_eq!(received.causation_id, sent.causation_id, "the causation id is kept");
    assert_eq!(received.content_type, sent.content_type, "the content type is kept");
}

pub(crate) async fn absent_fields_stay_absent(case: Case) {
    let received = round_trip(&case, message("bare")).await;
    assert_eq!(received.correlation_id, None, "no correlation id is invented");
    assert_eq!(received.causation_id, None, "no causation id is invented");
    assert_eq!(received.content_type, None, "no content type is invented");
    assert!(received.headers.is_empty(), "no header is invented");
}

pub(crate) async fn names_of_any_script_come_back(case: Case) {
    // The same letter composed and decomposed, and characters that break careless separators and
    // quoting.
    let texts = [
        "検査 결과 🏥",
        "é",
        "e\u{301}",
        " spaces ",
        "a'b\"c`d\\e",
        "a/b?c#d%20&;,:|{}",
        "\u{202e}rtl",
    ];
    for text in texts {
        round_trip(&case, named(text)).await;
    }
}

pub(crate) async fn names_of_full_length_come_back(case: Case) {
    let longest = "ß".repeat(127) + "x";
    assert!(QueueName::new(format!("{longest}y")).is_err(), "this is the maximum length");
    round_trip(&case, named(&longest)).await;
    round_trip(&case, named("1")).await;
}

fn named(text: &str) -> Message {
    let name = "a name of any script that is short enough";
    let mut message = message(text)
        .with_correlation_id(CorrelationId::new(text).expect(name))
        .with_content_type(ContentType::new(text).expect(name));
    message.message_type = MessageType::new(text).expect(name);
    message.causation_id = Some(MessageId::new(text).expect(name));
    message
}

pub(crate) async fn times_keep_their_milliseconds(case: Case) {
    for time in [1_700_000_000_123, 1_700_000_000_999, 0, -1, 253_402_200_000_001] {
        let sent = message("timed").with_time(millis(time));
        let received = round_trip(&case, sent).await;
        assert_eq!(received.time.as_millisecond(), time, "times are kept to the millisecond");
    }
}

pub(crate) async fn an_expiry_stays_with_its_message(case: Case) {
    let sent = message("m").with_expires_at(millis(4_000_000_000_123));
    case.send(sent.clone()).await;
    let worker = case.worker().await;
    for settlement in [retry(Duration::ZERO), dead_letter()] {
        let held = worker.one().await;
        assert_as_sent(&held.message, &sent);
        worker.settle(held, settlement).await;
    }
    assert_as_sent(&case.dead().await[0].message, &sent);
    case.replay(DeadLetterIds::All).await;
    assert_as_sent(&worker.one().await.message, &sent);
}

pub(crate) async fn a_ledger_is_sent_with_its_message(case: Case) {
    let mut ledger = Ledger::restored(4, 0, 3, 2, Vec::new());
    ledger.fail(vec![failed_try(1), failed_try(2)]);
    ledger.acquire();
    ledger.fail(vec![failed_try(3)]);
    case.send(message("with a past").with_ledger(ledger.clone())).await;
    let delivery = case.worker().await.one().await;
    let received = delivery.message.ledger.clone();
    assert_eq!(received.history(), ledger.history(), "the history is sent with the message");
    assert_eq!(
        (received.failed, received.released, received.replayed),
        (2, 3, 2),
        "the counts are sent too"
    );
    if case.counts_exactly() {
        assert_eq!(received.acquired, 6, "acquisitions continue from the sent count");
        assert!(delivery.redelivered, "it was released before, and a handler may have run");
    }
}

/// A program that knows what failed but counted nothing may send such a ledger.
pub(crate) async fn a_history_is_kept_whatever_the_counts_say(case: Case) {
    let mut ledger = Ledger::restored(0, 0, 0, 0, vec![failed_try(1), failed_try(2)]);
    case.send(message("with a past").with_ledger(ledger.clone())).await;
    let worker = case.worker().await;
    for number in 3..5 {
        let held = worker.one().await;
        let received = &held.message.ledger;
        assert_eq!(
            received.history(),
            ledger.history(),
            "the history does not depend on the counts"
        );
        let tries = vec![failed_try(number)];
        ledger.fail(tries.clone());
        worker.settle(held, Settlement::Retry { after: Duration::ZERO, tries }).await;
    }
    let received = worker.one().await.message.ledger.clone();
    assert_eq!(received.history(), ledger.history(), "further tries are added to the history");
}
