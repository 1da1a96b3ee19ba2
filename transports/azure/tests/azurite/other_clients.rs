//! Messages of other programs, written and read with Microsoft's client.

use bezoar_azure::{ForeignText, Options};
use bezoar_core::Settlement;
use serde_json::Value;

use super::support::{
    Outside, dead, dead_letter, message, one, open, options, queue, retry, send, settle, subscribe,
    text,
};

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn plain_and_base64_texts_come_through_retry_dead_letter_and_replay() {
    let hl7 = "MSH|^~\\&|LAB|A\rPID|1||é & <b>\r\n";
    for (written, body) in
        [(hl7, hl7), ("aGVsbG8=", "hello"), ("  spaced\n", "  spaced\n"), ("{", "{")]
    {
        let (queue, transport) = (queue("foreign").await, open(options()));
        Outside::queue(queue.as_str()).put(written).await;
        let subscription = subscribe(&transport, &queue, 30).await;
        let first = one(&*subscription).await;
        let id = first.message.id.clone();
        assert_eq!((text(&first.message), first.redelivered), (body.to_owned(), false));
        assert_eq!(first.message.message_type.as_str(), "untyped");
        settle(&*subscription, first, retry("no room")).await.unwrap();
        let second = one(&*subscription).await;
        assert_eq!((&second.message.id, text(&second.message)), (&id, body.to_owned()));
        assert_eq!((second.message.ledger.failed, second.message.ledger.acquired), (1, 2));
        settle(&*subscription, second, dead_letter("no room")).await.unwrap();
        let record = Outside::queue(&format!("{queue}-poison")).texts().await.remove(0);
        let record: Value = serde_json::from_str(&record).unwrap();
        assert_eq!(record["OriginalText"], written, "the text as it was sent");
        assert_eq!(
            (&record["OriginalMessageId"], &record["DequeueCount"]),
            (&id.as_str().into(), &2.into())
        );
        let letter = dead(&transport, &queue).await.remove(0);
        assert_eq!((&letter.message.id, text(&letter.message)), (&id, body.to_owned()));
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn texts_are_read_as_the_option_says() {
    for (foreign_text, body) in [(ForeignText::Plain, "aGVsbG8="), (ForeignText::Base64, "hello")] {
        let queue = queue("as-told").await;
        let transport = open(Options { foreign_text, ..options() });
        Outside::queue(queue.as_str()).put("aGVsbG8=").await;
        let subscription = subscribe(&transport, &queue, 30).await;
        let held = one(&*subscription).await;
        assert_eq!(text(&held.message), body);
        settle(&*subscription, held, Settlement::Complete).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn other_programs_read_our_envelope() {
    let (queue, transport) = (queue("ours").await, open(options()));
    let sent = message("m-1", "14.1 g/dL").with_header("tenant", "St. Mary's\0🏥");
    send(&transport, &queue, sent).await.unwrap();
    let seen = Outside::queue(queue.as_str()).texts().await.remove(0);
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(
        (&seen["bezoar"], &seen["id"], &seen["type"]),
        (&1.into(), &"m-1".into(), &"lab.result".into())
    );
    assert_eq!(
        (&seen["body"], &seen["headers"]["tenant"]),
        (&"MTQuMSBnL2RM".into(), &"St. Mary's\0🏥".into())
    );
    assert_eq!(seen["time"], 1_700_000_000_123_i64);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn nothing_expires_unless_it_is_told_to() {
    let (queue, transport) = (queue("for-ever").await, open(options()));
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let (main, poison) =
        (Outside::queue(queue.as_str()), Outside::queue(&format!("{queue}-poison")));
    assert_eq!(main.peek().await[0].expiration_time.unwrap().year(), 9999);
    let brief = Options { time_to_live: Some(std::time::Duration::from_secs(60)), ..options() };
    let subscription = subscribe(&open(brief.clone()), &queue, 30).await;
    let held = one(&*subscription).await;
    settle(&*subscription, held, dead_letter("detail")).await.unwrap();
    assert_eq!(poison.peek().await[0].expiration_time.unwrap().year(), 9999, "a record is kept");
    send(&open(brief), &queue, message("brief", "body")).await.unwrap();
    let brief = main.peek().await.remove(0);
    let lives = brief.expiration_time.unwrap() - brief.insertion_time.unwrap();
    assert_eq!(lives.whole_seconds(), 60);
}
