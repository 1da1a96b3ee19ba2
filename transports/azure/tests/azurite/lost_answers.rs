//! Answers that are lost after Azure did what was asked: nothing is lost, and what can be told is told.

use std::time::Duration;

use bezoar_core::{ErrorKind, Settlement};

use super::{
    faulty_proxy::{Fault, FaultyProxy},
    support::{
        Outside, dead, dead_letter, message, one, open, options_at, queue, retry, send, settle,
        subscribe,
    },
};

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_send_without_an_answer_has_an_unknown_outcome() {
    let (queue, proxy) = (queue("lost-send").await, FaultyProxy::start().await);
    let transport = open(options_at(&proxy.connection_string()));
    proxy.hit("POST", 1, Fault::LoseAnswer);
    let error = send(&transport, &queue, message("m", "body")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown);
    assert_eq!(Outside::queue(queue.as_str()).count().await, 1, "it was stored");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_completion_without_an_answer_is_confirmed_when_it_is_repeated() {
    let (queue, proxy) = (queue("lost-delete").await, FaultyProxy::start().await);
    let transport = open(options_at(&proxy.connection_string()));
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    let held = one(&*subscription).await;
    proxy.hit("DELETE", 1, Fault::LoseAnswer);
    let lost = settle(&*subscription, held.copy(), Settlement::Complete).await.unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Unavailable, "it can be repeated without harm");
    settle(&*subscription, held, Settlement::Complete).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_dead_letter_without_an_answer_is_stored_once_when_it_is_repeated() {
    for (requests, copies) in [("DELETE", 1), ("POST", 2)] {
        let (queue, proxy) = (queue("lost-dead").await, FaultyProxy::start().await);
        let transport = open(options_at(&proxy.connection_string()));
        send(&transport, &queue, message("m", "body")).await.unwrap();
        let subscription = subscribe(&transport, &queue, 30).await;
        let held = one(&*subscription).await;
        proxy.hit(requests, 1, Fault::LoseAnswer);
        let lost = settle(&*subscription, held.copy(), dead_letter("detail")).await.unwrap_err();
        assert_eq!(lost.kind, ErrorKind::Unavailable, "{requests}");
        settle(&*subscription, held, dead_letter("detail")).await.unwrap();
        let poison = Outside::queue(&format!("{queue}-poison"));
        assert_eq!(poison.count().await, copies, "{requests}");
        assert_eq!(dead(&transport, &queue).await.len(), 1, "copies are one letter");
        assert_eq!(Outside::queue(queue.as_str()).count().await, 0);
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_retry_without_an_answer_has_an_unknown_outcome_and_returns() {
    let (queue, proxy) = (queue("lost-retry").await, FaultyProxy::start().await);
    let transport = open(options_at(&proxy.connection_string()));
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let subscription = subscribe(&transport, &queue, 2).await;
    let held = one(&*subscription).await;
    proxy.hit("PUT", 1, Fault::LoseAnswer);
    let lost = settle(&*subscription, held.copy(), retry("detail")).await.unwrap_err();
    assert_eq!(lost.kind, ErrorKind::OutcomeUnknown);
    let again = one(&*subscription).await;
    assert_eq!(again.message.ledger.failed, 1, "it was stored");
    let stale = settle(&*subscription, held, Settlement::Complete).await.unwrap_err();
    assert_eq!(stale.kind, ErrorKind::LeaseLost);
    settle(&*subscription, again, Settlement::Complete).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_renewal_without_an_answer_loses_the_lease_and_no_message() {
    let (queue, proxy) = (queue("lost-renewal").await, FaultyProxy::start().await);
    let transport = open(options_at(&proxy.connection_string()));
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let subscription = subscribe(&transport, &queue, 2).await;
    let mut held = one(&*subscription).await;
    proxy.hit("PUT", 1, Fault::LoseAnswer);
    let lost = subscription.extend(std::slice::from_mut(&mut held), Duration::from_secs(2)).await;
    assert_eq!(lost.into_iter().next().unwrap().unwrap_err().kind, ErrorKind::Unavailable);
    let stale = settle(&*subscription, held, Settlement::Complete).await.unwrap_err();
    assert_eq!(stale.kind, ErrorKind::LeaseLost, "the new pop receipt was lost with the answer");
    let again = one(&*subscription).await;
    assert!(again.redelivered);
    settle(&*subscription, again, Settlement::Complete).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_stale_worker_makes_no_dead_copy() {
    let (queue, transport) = (queue("stale").await, open(super::support::options()));
    send(&transport, &queue, message("m", "body")).await.unwrap();
    let (slow, fast) =
        (subscribe(&transport, &queue, 1).await, subscribe(&transport, &queue, 30).await);
    let stale = one(&*slow).await;
    let held = one(&*fast).await;
    let refused = settle(&*slow, stale, dead_letter("detail")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::LeaseLost);
    assert_eq!(Outside::queue(&format!("{queue}-poison")).count().await, 0);
    settle(&*fast, held, Settlement::Complete).await.unwrap();
}
