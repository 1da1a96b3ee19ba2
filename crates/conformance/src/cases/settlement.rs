//! A settlement takes effect exactly once, and only from the worker that holds the lease.

use std::time::Duration;

use bezoar_core::Settlement;

use crate::{
    case::Case,
    samples::{assert_as_sent, dead_letter, full_message, ids, message, messages, release, retry},
    worker::assert_lease_lost,
};

const GONE: &str = "a message is in one place only";

pub(crate) async fn complete_removes_the_message(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    worker.complete(vec![worker.one().await]).await;
    case.outlast_leases().await;
    worker.none("a completed message is gone").await;
    case.assert_depth([0, 0, 0, 0], "after completing").await;
}

pub(crate) async fn retry_returns_the_message(case: Case) {
    case.send(full_message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, retry(Duration::ZERO)).await;
    assert_as_sent(&worker.one().await.message, &full_message("m"));
    worker.none(GONE).await;
}

pub(crate) async fn release_returns_the_message(case: Case) {
    case.send(full_message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, release(Duration::ZERO)).await;
    assert_as_sent(&worker.one().await.message, &full_message("m"));
    worker.none(GONE).await;
}

pub(crate) async fn dead_letter_sets_the_message_aside(case: Case) {
    case.send(full_message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, dead_letter()).await;
    case.outlast_leases().await;
    worker.none(GONE).await;
    let dead = case.dead().await;
    assert_eq!(dead.len(), 1, "a dead-lettered message is a dead letter");
    assert_as_sent(&dead[0].message, &full_message("m"));
}

pub(crate) async fn a_settlement_leaves_neighbours_alone(case: Case) {
    case.send_all(messages(6)).await;
    let worker = case.worker().await;
    let mut held = worker.take(5).await;
    for settlement in [Settlement::Complete, retry(case.ticks(50)), dead_letter()] {
        worker.settle(held.remove(0), settlement).await;
    }
    let free = case.worker().await.take(1).await;
    worker.none("a neighbour stays leased").await;
    worker.complete(held).await;
    case.assert_depth([0, 1, free.len() as u64, 1], "after settling some").await;
}

pub(crate) async fn a_batch_has_one_result_for_each_delivery_in_order(case: Case) {
    case.send_all(messages(5)).await;
    let worker = case.worker().await;
    let held = worker.take(5).await;
    worker.complete(vec![held[1].copy(), held[2].copy()]).await;
    let (retry, release) = (retry(Duration::ZERO), release(Duration::ZERO));
    let settlements = [Settlement::Complete, retry.clone(), dead_letter(), retry, release];
    let results = worker.subscription.settle(held.into_iter().zip(settlements).collect()).await;
    let done: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, false, false, true, true], "results are in the order of the batch");
    results.into_iter().filter(Result::is_err).for_each(assert_lease_lost);
    case.assert_depth([2, 0, 0, 0], "after settling a mixed batch").await;
}

pub(crate) async fn an_empty_batch_has_no_results(case: Case) {
    let results = case.worker().await.subscription.settle(Vec::new()).await;
    assert_eq!(results.len(), 0, "a batch has one result per delivery");
}

pub(crate) async fn a_second_settlement_is_refused(case: Case) {
    let kinds =
        || [Settlement::Complete, retry(Duration::ZERO), dead_letter(), release(Duration::ZERO)];
    let worker = case.worker().await;
    for first in kinds() {
        for second in kinds() {
            case.send(message("m")).await;
            let held = worker.one().await;
            let again = held.copy();
            worker.settle(held, first.clone()).await;
            worker.refused(again, second).await;
            worker.consume_all().await;
        }
    }
    assert_eq!(case.dead().await.len(), 4, "a refused settlement changes nothing");
}

pub(crate) async fn a_delivery_twice_in_a_batch_is_settled_once(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let held = worker.one().await;
    let batch = vec![(held.copy(), dead_letter()), (held, dead_letter())];
    let results = worker.subscription.settle(batch).await;
    let done: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, false], "the second settlement of a delivery is refused");
    assert_eq!(case.dead().await.len(), 1, "a message is dead-lettered once");
}

/// A worker that lost its lease settles. The worker that now has the lease must not notice.
async fn stale_changes_nothing(case: Case, settlement: Settlement) {
    case.send(message("m")).await;
    let (slow, fast) = (case.worker().await, case.worker().await);
    let stale = slow.one().await;
    case.outlast_leases().await;
    let held = fast.one().await;
    let before = held.message.ledger.clone();
    slow.refused(stale.copy(), settlement.clone()).await;
    slow.none("a stale receipt does not make the message ready").await;
    case.assert_depth([0, 0, 1, 0], "after a stale settlement").await;
    fast.settle(held, release(Duration::ZERO)).await;
    slow.refused(stale, settlement).await;
    let after = fast.one().await.message;
    assert_eq!(ids([&*after]), ids([&message("m")]), "the message is still there");
    assert_eq!((after.ledger.failed, after.ledger.released), (before.failed, before.released + 1));
    assert_eq!(
        after.ledger.history(),
        before.history(),
        "a stale receipt does not change the ledger"
    );
}

pub(crate) async fn a_stale_complete_changes_nothing(case: Case) {
    stale_changes_nothing(case, Settlement::Complete).await;
}

pub(crate) async fn a_stale_retry_changes_nothing(case: Case) {
    stale_changes_nothing(case, retry(Duration::ZERO)).await;
}

pub(crate) async fn a_stale_dead_letter_changes_nothing(case: Case) {
    stale_changes_nothing(case, dead_letter()).await;
}

pub(crate) async fn a_stale_release_changes_nothing(case: Case) {
    stale_changes_nothing(case, release(Duration::ZERO)).await;
}
