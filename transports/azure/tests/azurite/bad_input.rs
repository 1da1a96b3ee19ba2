//! Texts that nobody should send: none stops the queue, and none is lost.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{ErrorKind, QueueAdmin, Settlement};

use super::{
    faulty_proxy::{Fault, FaultyProxy},
    support::{
        Outside, PATIENCE, dead, dead_letter, message, one, open, options, options_at, queue,
        retry, send, settle, subscribe, text,
    },
};

const LIMIT: usize = 64 * 1024;

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn damaged_envelopes_are_dead_letters_with_their_text_and_hold_up_nobody() {
    let (queue, transport) = (queue("damaged").await, open(options()));
    let outside = Outside::queue(queue.as_str());
    let damaged = [
        r#"{"bezoar":1,"id":"m","type":"t","time":0,"body":"not base64!"}"#,
        r#"{"bezoar":1,"id":"m","type":"t","time":0,"bo"#,
        r#"{"bezoar":1,"id":7,"type":"t","time":0,"body":""}"#,
        r#"{"bezoar":-1}"#,
    ];
    for text in damaged {
        outside.put(text).await;
    }
    outside.put("healthy").await;
    let subscription = subscribe(&transport, &queue, 30).await;
    let held = one(&*subscription).await;
    assert_eq!(text(&held.message), "healthy");
    settle(&*subscription, held, Settlement::Complete).await.unwrap();
    subscription.close().await.unwrap();
    let letters = dead(&transport, &queue).await;
    let mut texts: Vec<_> = letters.iter().map(|it| text(&it.message)).collect();
    texts.sort();
    let mut expected = damaged.to_vec();
    expected.sort();
    assert_eq!(texts, expected);
    for letter in letters {
        assert_eq!(letter.reason.to_string(), "Failed to deserialize message");
    }
    assert_eq!(outside.count().await, 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_envelope_of_a_newer_version_is_left_to_newer_consumers_for_a_while() {
    let (queue, mut options) = (queue("newer").await, options());
    options.limits.max_dequeue_count = 1;
    let transport = open(options);
    let written = r#"{"bezoar":2,"shape":["unknown"]}"#;
    Outside::queue(queue.as_str()).put(written).await;
    let subscription = subscribe(&transport, &queue, 1).await;
    let some = subscription.receive(NonZeroU32::MIN, Duration::ZERO).await.unwrap();
    assert!(some.is_empty(), "it cannot be read");
    assert!(dead(&transport, &queue).await.is_empty(), "a newer consumer may take it");
    let some = subscription.receive(NonZeroU32::MIN, Duration::from_secs(2)).await.unwrap();
    assert!(some.is_empty(), "it cannot be read");
    subscription.close().await.unwrap();
    let letter = dead(&transport, &queue).await.remove(0);
    assert!(letter.reason.to_string().contains("version 2; upgrade"), "{}", letter.reason);
    assert_eq!(text(&letter.message), written);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_foreign_text_of_the_greatest_size_is_retried_and_set_aside() {
    for filler in ["x", "\"", "\n"] {
        let (queue, transport) = (queue("full").await, open(options()));
        let written = filler.repeat(LIMIT);
        Outside::queue(queue.as_str()).put(&written).await;
        let subscription = subscribe(&transport, &queue, 30).await;
        let first = one(&*subscription).await;
        settle(&*subscription, first, retry("no room")).await.unwrap();
        let second = one(&*subscription).await;
        assert_eq!(second.message.ledger.acquired, 2);
        settle(&*subscription, second, dead_letter("no room")).await.unwrap();
        let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
        let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().remove(0);
        assert!(text(&letter.message) == written, "the text is kept whole");
        assert_eq!(feed.replay_all(1, Duration::ZERO).await.unwrap(), 0, "it is handed out once");
        feed.replay(&[letter.message]).await.remove(0).unwrap();
        let replayed = one(&*subscription).await;
        assert!(text(&replayed.message) == written, "a replay never fails for its size");
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn what_is_too_large_is_refused_before_it_is_sent_and_the_claim_check_is_named() {
    let (queue, transport) = (queue("large").await, open(options()));
    for large in [
        message("m-1", vec![7; 45 * 1024 + 1]),
        message("m-1", vec![7; 45 * 1024]).with_header("h", "x".repeat(4 * 1024)),
    ] {
        let refused = send(&transport, &queue, large).await.unwrap_err();
        let ErrorKind::TooLarge { id, actual_bytes, limit_bytes } = &refused.kind else {
            panic!("{refused}");
        };
        assert_eq!(id.as_str(), "m-1");
        assert!(actual_bytes > limit_bytes);
        assert!(refused.to_string().starts_with("azurequeue send: message m-1 is"), "{refused}");
        let remedy = std::error::Error::source(&refused).unwrap().to_string();
        assert!(remedy.contains("claim check"), "{remedy}");
    }
    assert_eq!(Outside::queue(queue.as_str()).count().await, 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_empty_text_is_an_empty_body() {
    let (queue, transport) = (queue("empty").await, open(options()));
    Outside::queue(queue.as_str()).put("").await;
    let subscription = subscribe(&transport, &queue, 30).await;
    let held = one(&*subscription).await;
    assert!(held.message.body.is_empty());
    settle(&*subscription, held, retry("no room")).await.unwrap();
    let held = one(&*subscription).await;
    assert!(held.message.body.is_empty());
    settle(&*subscription, held, Settlement::Complete).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_letter_that_cannot_be_read_goes_back_unchanged() {
    let digest = "0".repeat(64);
    let with_blob = format!(
        r#"{{"bezoar":2,"blob":{{"name":"{:032x}-{digest}","size":3,"sha256":"{digest}"}}}}"#,
        1
    );
    for written in [
        r#"{"bezoar":2,"shape":["unknown"]}"#,
        &with_blob,
        r#"{"bezoar":1,"id":"m","type":"t","time":0,"bo"#,
    ] {
        let (queue, mut options) = (queue("unchanged").await, options());
        options.limits.max_dequeue_count = 1;
        let transport = open(options);
        let outside = Outside::queue(queue.as_str());
        outside.put(written).await;
        let subscription = subscribe(&transport, &queue, 1).await;
        while outside.count().await > 0 {
            let wait = Duration::from_secs(1);
            assert!(subscription.receive(NonZeroU32::MIN, wait).await.unwrap().is_empty());
        }
        subscription.close().await.unwrap();
        let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
        let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().remove(0);
        assert_eq!(text(&letter.message), written);
        feed.replay(&[letter.message]).await.remove(0).unwrap();
        assert_eq!(outside.texts().await, [written]);
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_flood_of_unreadable_messages_is_set_aside_a_few_at_a_time() {
    let (queue, proxy) = (queue("flood").await, FaultyProxy::start().await);
    let outside = Outside::queue(queue.as_str());
    for number in 0..200 {
        outside.put(&format!(r#"{{"bezoar":1,"number":{number}}}"#)).await;
    }
    let transport = open(options_at(&proxy.connection_string()));
    proxy.hit("-poison/messages", 1_000, Fault::Hold);
    let subscription = subscribe(&transport, &queue, 30).await;
    let many = NonZeroU32::new(32).unwrap();
    let some = subscription.receive(many, Duration::from_secs(4)).await.unwrap();
    assert!(some.is_empty(), "none can be read");
    assert!((1..=64).contains(&proxy.hits()), "{} at a time", proxy.hits());
    proxy.release();
    while outside.count().await > 0 {
        assert!(subscription.receive(many, PATIENCE).await.unwrap().is_empty());
    }
    subscription.close().await.unwrap();
    assert_eq!(Outside::queue(&format!("{queue}-poison")).count().await, 200);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_edited_letter_of_another_program_is_refused_if_it_is_too_large() {
    for written in ["plain", "aGVsbG8="] {
        let (queue, transport) = (queue("edited").await, open(options()));
        Outside::queue(&format!("{queue}-poison")).put(written).await;
        let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
        let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().remove(0);
        let edited = letter.message.with_body("x".repeat(LIMIT + 1));
        let refused = feed.replay(&[edited]).await.remove(0).unwrap_err();
        let ErrorKind::TooLarge { actual_bytes, limit_bytes, .. } = refused.kind else {
            panic!("{refused}");
        };
        assert!(actual_bytes > limit_bytes, "{refused}");
        assert_eq!(limit_bytes, LIMIT);
        assert_eq!(transport.depth(&queue).await.unwrap().total, Some(0));
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn control_characters_hold_up_nobody() {
    let (queue, transport) = (queue("control").await, open(options()));
    let outside = Outside::queue(queue.as_str());
    // Azure refuses them. Azurite stores them, and then fails to hand out any batch that contains one.
    for control in ["\u{0}", "a\u{1}b", "\u{1f}", "\u{fffe}"] {
        assert_eq!(outside.put_xml(&queue, control).await, 201);
    }
    outside.put("healthy \u{7f}\u{85}").await;
    let subscription = subscribe(&transport, &queue, 2).await;
    let many = NonZeroU32::new(16).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        assert!(tokio::time::Instant::now() < deadline, "nothing arrived");
        let some = subscription.receive(many, Duration::from_secs(1)).await.unwrap_or_default();
        if let Some(held) = some.into_iter().next() {
            assert_eq!(text(&held.message), "healthy \u{7f}\u{85}");
            return settle(&*subscription, held, Settlement::Complete).await.unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn envelopes_of_other_shapes_are_read_or_dead_letters_with_their_text() {
    let (queue, transport) = (queue("shapes").await, open(options()));
    let outside = Outside::queue(queue.as_str());
    let older = r#"{"bezoar":0,"id":"m-0","type":"t","time":0,"body":"b2xkZXI="}"#;
    let huge = r#"{"bezoar":1,"id":"m-1","type":"t","time":0,"body":"aHVnZQ==","ledger":{"failed":99999999999999999999,"acquired":"many"}}"#;
    let negative =
        r#"{"bezoar":1,"id":"m-2","type":"t","time":0,"body":"bmVn","ledger":{"failed":-3}}"#;
    for written in [older, huge, negative, "bezoar", "{}", "[1,2", "null", "====", "MSH|^~\\&|"] {
        outside.put(written).await;
    }
    let damaged = [
        r#"{"bezoar":99999999999999999999}"#,
        r#"{"bezoar":1,"id":"","type":"t","time":0,"body":""}"#,
        r#"{"bezoar":1,"id":"m","type":"t","time":0}"#,
        r#"{"bezoar":1,"id":"m","type":"t","time":0,"body":"","blob":{"name":"x","size":1,"sha256":""}}"#,
    ];
    for written in damaged {
        outside.put(written).await;
    }
    let subscription = subscribe(&transport, &queue, 30).await;
    let mut bodies = Vec::new();
    while bodies.len() < 9 {
        for held in subscription.receive(NonZeroU32::new(16).unwrap(), PATIENCE).await.unwrap() {
            assert_eq!(held.message.ledger.failed, 0);
            bodies.push(text(&held.message));
            settle(&*subscription, held, Settlement::Complete).await.unwrap();
        }
    }
    bodies.sort();
    let expected = ["====", "MSH|^~\\&|", "[1,2", "bezoar", "huge", "neg", "null", "older", "{}"];
    assert_eq!(bodies, expected);
    subscription.close().await.unwrap();
    let letters = dead(&transport, &queue).await;
    let mut texts: Vec<_> = letters.iter().map(|it| text(&it.message)).collect();
    texts.sort();
    let mut expected = damaged.to_vec();
    expected.sort();
    assert_eq!(texts, expected);
}
