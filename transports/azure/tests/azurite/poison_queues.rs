//! Poison queues that other programs fill: taken in as they are, and replayed as they came.

use std::{num::NonZeroU32, time::Duration};

use bezoar_azure::{ErrorTexts, Options};
use bezoar_core::{ErrorKind, QueueAdmin, QueueName, Recognition, Settlement, Transport};

use super::support::{
    Outside, PATIENCE, dead, dead_letter, message, one, open, options, queue, send, settle,
    subscribe, text,
};

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn letters_of_azure_functions_are_taken_in_and_replayed_as_they_came() {
    let (queue, transport) = (queue("functions").await, open(options()));
    let poison = Outside::queue(&format!("{queue}-poison"));
    let record = r#"{"OriginalMessageId":"o-1","OriginalText":"from a record","DequeueCount":6}"#;
    for written in ["aGVsbG8=", "plain", record] {
        poison.put(written).await;
    }
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    let letters = feed.next(NonZeroU32::MAX, PATIENCE).await.unwrap();
    let mut bodies: Vec<_> = letters.iter().map(|it| text(&it.message)).collect();
    bodies.sort();
    assert_eq!(bodies, ["from a record", "hello", "plain"]);
    assert!(letters.iter().all(|it| it.recognition == Recognition::Id));
    let messages: Vec<_> = letters.iter().map(|it| it.message.clone()).collect();
    assert!(feed.replay(&messages).await.iter().all(Result::is_ok));
    let ids: Vec<_> = letters.iter().map(|it| it.id).collect();
    feed.remove(&ids).await.unwrap();
    let mut sent = Outside::queue(queue.as_str()).texts().await;
    sent.sort();
    assert_eq!(sent, ["aGVsbG8=", "from a record", "plain"]);
    assert_eq!(poison.count().await, 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_letter_whose_lease_expired_is_not_handed_out_twice_and_can_be_removed() {
    let queue = queue("again").await;
    let transport = open(Options { dead_letter_lease: Duration::from_secs(1), ..options() });
    Outside::queue(&format!("{queue}-poison")).put("plain").await;
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    let letters = feed.next(NonZeroU32::MAX, PATIENCE).await.unwrap();
    assert_eq!(letters.len(), 1);
    let again = feed.next(NonZeroU32::MAX, Duration::from_millis(1_500)).await.unwrap();
    assert!(again.is_empty(), "it was handed out before");
    feed.remove(&[letters[0].id]).await.unwrap();
    assert_eq!(transport.depth(&queue).await.unwrap().dead, Some(0), "the latest receipt is used");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn more_letters_than_a_peek_shows_are_handed_out() {
    let (queue, transport) = (queue("many").await, open(options()));
    let poison = Outside::queue(&format!("{queue}-poison"));
    for number in 0..80 {
        poison.put(&format!("letter {number}")).await;
    }
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    let mut found = std::collections::HashSet::new();
    while found.len() < 80 {
        let letters = feed.next(NonZeroU32::MAX, PATIENCE).await.unwrap();
        assert!(!letters.is_empty(), "got {} of 80", found.len());
        found.extend(letters.into_iter().map(|it| it.id));
    }
    assert_eq!(transport.depth(&queue).await.unwrap().dead, Some(80), "none was removed");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_poison_queue_can_have_another_name() {
    let (queue, other) = (queue("named").await, queue("other").await);
    let poison_queues = [(queue.clone(), other.clone())].into();
    let transport = open(Options { poison_queues, ..options() });
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    let held = one(&*subscription).await;
    settle(&*subscription, held, dead_letter("detail")).await.unwrap();
    assert_eq!(Outside::queue(other.as_str()).count().await, 1);
    assert_eq!(dead(&transport, &queue).await.len(), 1);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_missing_poison_queue_is_created_or_named() {
    let queue = queue("missing").await;
    let poison = Outside::queue(&format!("{queue}-poison"));
    poison.delete_queue().await;
    let strict = open(Options { create_if_missing: false, ..options() });
    let findings = strict.validate(&queue).await.unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].problem.contains("-poison"), "{findings:?}");
    let refused = strict.subscribe(&queue, bezoar_core::SubscribeOptions::default()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unusable);
    let text = std::error::Error::source(&refused).unwrap().to_string();
    assert!(text.contains("-poison\" is missing"), "{text}");
    let refused = strict.provision(&queue).await.unwrap_err();
    let missing = QueueName::new(format!("{queue}-poison")).unwrap();
    assert_eq!(refused.kind, ErrorKind::QueueNotFound(missing));

    let transport = open(options());
    let subscription = subscribe(&transport, &queue, 30).await;
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let held = one(&*subscription).await;
    poison.delete_queue().await;
    settle(&*subscription, held, dead_letter("detail")).await.unwrap();
    assert_eq!(poison.count().await, 1, "created again when it was needed");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn error_texts_stay_out_of_the_poison_queue_if_they_must() {
    for error_texts in [ErrorTexts::Redact, ErrorTexts::Omit] {
        let queue = queue("redacted").await;
        let transport = open(Options { error_texts, ..options() });
        send(&transport, &queue, message("m", "body")).await.unwrap();
        let subscription = subscribe(&transport, &queue, 30).await;
        let held = one(&*subscription).await;
        settle(&*subscription, held, dead_letter("CANARY")).await.unwrap();
        let record = Outside::queue(&format!("{queue}-poison")).texts().await.remove(0);
        assert!(!record.contains("CANARY"), "{record}");
        let letter = dead(&transport, &queue).await.remove(0);
        assert_eq!(letter.reason.to_string(), "max retries (3) exhausted");
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn depth_says_what_is_known() {
    let (queue, transport) = (queue("depth").await, open(options()));
    let depth = transport.depth(&queue).await.unwrap();
    assert_eq!((depth.total, depth.ready, depth.leased), (Some(0), Some(0), Some(0)));
    let batch: Vec<_> = (0..40).map(|it| message(&format!("m-{it}"), "body").into()).collect();
    transport.send(&(&queue).into(), &batch).await;
    let depth = transport.depth(&queue).await.unwrap();
    assert_eq!((depth.total, depth.ready, depth.leased), (Some(40), None, None));
    let subscription = subscribe(&transport, &queue, 30).await;
    let most = NonZeroU32::new(16).unwrap();
    let held = subscription.receive(most, PATIENCE).await.unwrap();
    let depth = transport.depth(&queue).await.unwrap();
    assert_eq!((depth.total, depth.ready, depth.leased), (Some(40), Some(24), None));
    let complete = held.into_iter().map(|it| (it, Settlement::Complete)).collect();
    assert!(subscription.settle(complete).await.iter().all(Result::is_ok));
    assert_eq!(transport.depth(&queue).await.unwrap().total, Some(24));
}
