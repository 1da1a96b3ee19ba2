//! No message is delivered early, and none waits for the delay of another.

use std::time::Duration;

use bezoar_core::{ErrorKind, MAX_DELAY, Settlement};

use crate::{
    case::{Case, LONG},
    samples::{after, message, release, retry},
    worker::Worker,
};

const EARLY: &str = "a message is not delivered before its delay has passed";

async fn next(worker: &Worker) -> String {
    worker.consume(1).await.remove(0).id.to_string()
}

pub(crate) async fn a_delayed_message_is_not_early(case: Case) {
    case.send(after(case.ticks(3), message("m"))).await;
    let worker = case.worker().await;
    worker.none(EARLY).await;
    case.elapse(2).await;
    worker.none(EARLY).await;
    case.elapse(2).await;
    assert_eq!(
        next(&worker).await,
        "m",
        "a delayed message is delivered once its delay has passed"
    );
}

pub(crate) async fn delayed_messages_come_each_at_its_time(case: Case) {
    for (id, ticks) in [("third", 6), ("first", 2), ("second", 4)] {
        case.send(after(case.ticks(ticks), message(id))).await;
    }
    let worker = case.worker().await;
    case.elapse(1).await;
    for id in ["first", "second", "third"] {
        worker.none(EARLY).await;
        case.elapse(2).await;
        assert_eq!(next(&worker).await, id, "each is delivered after its own delay");
    }
}

pub(crate) async fn messages_that_are_due_come_in_the_order_of_their_times(case: Case) {
    for (id, ticks) in [("third", 3), ("first", 1), ("second", 2)] {
        case.send(after(case.ticks(ticks), message(id))).await;
    }
    case.elapse(5).await;
    case.send(message("fourth")).await;
    let worker = case.worker().await;
    for id in ["first", "second", "third", "fourth"] {
        assert_eq!(next(&worker).await, id, "the message that was due first comes first");
    }
}

pub(crate) async fn a_long_delay_does_not_hold_up_a_short_one(case: Case) {
    case.send(after(case.ticks(LONG), message("long"))).await;
    case.send(after(case.ticks(1), message("short"))).await;
    case.elapse(2).await;
    let worker = case.worker().await;
    assert_eq!(next(&worker).await, "short", "a short delay does not wait behind a long one");
    worker.none(EARLY).await;
}

pub(crate) async fn a_delay_does_not_hold_up_what_is_ready(case: Case) {
    case.send(after(case.ticks(LONG), message("delayed"))).await;
    case.send(message("ready")).await;
    let worker = case.worker().await;
    assert_eq!(next(&worker).await, "ready", "a ready message does not wait behind a delayed one");
    worker.none(EARLY).await;
}

pub(crate) async fn the_longest_declared_delay_is_accepted(case: Case) {
    let longest = case.can().scheduled.expect("the case needs it");
    case.send(after(longest, message("m"))).await;
    case.worker().await.none(EARLY).await;
    case.assert_depth([0, 1, 0, 0], "after sending with the longest delay").await;
}

pub(crate) async fn a_delay_beyond_the_limit_is_refused(case: Case) {
    let longest = case.can().scheduled.unwrap_or_default();
    let beyond = [longest, MAX_DELAY].map(|most| most + Duration::from_millis(1));
    for delay in beyond.into_iter().chain([Duration::MAX]) {
        let kind = case.refusal(after(delay, message("m"))).await.kind;
        let refused = matches!(kind, ErrorKind::Invalid(_) | ErrorKind::Unsupported(_));
        assert!(
            refused,
            "an unsupported delay is refused as unsupported or invalid, not as {kind:?}"
        );
    }
    case.assert_depth([0, 0, 0, 0], "after refusing").await;
}

/// Asserts that the message is delivered again after 3 ticks, and not before.
async fn not_early(case: Case, settlement: Settlement) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, settlement).await;
    worker.none(EARLY).await;
    case.elapse(2).await;
    worker.none(EARLY).await;
    case.elapse(2).await;
    assert_eq!(next(&worker).await, "m", "a message is delivered again once its delay has passed");
}

pub(crate) async fn a_retry_is_not_early(case: Case) {
    let settlement = retry(case.ticks(3));
    not_early(case, settlement).await;
}

pub(crate) async fn a_released_message_is_not_early(case: Case) {
    let settlement = release(case.ticks(3));
    not_early(case, settlement).await;
}

pub(crate) async fn a_long_retry_does_not_hold_up_a_short_one(case: Case) {
    let worker = case.worker().await;
    for (id, ticks) in [("long", LONG), ("short", 1)] {
        case.send(message(id)).await;
        worker.settle(worker.one().await, retry(case.ticks(ticks))).await;
    }
    case.elapse(2).await;
    assert_eq!(next(&worker).await, "short", "a short retry does not wait behind a long one");
    worker.none(EARLY).await;
}

pub(crate) async fn an_endless_retry_is_kept(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, retry(Duration::MAX)).await;
    worker.none(EARLY).await;
    case.assert_depth([0, 1, 0, 0], "after a retry with an unlimited delay").await;
}
