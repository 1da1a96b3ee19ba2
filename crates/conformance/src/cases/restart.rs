//! Everything that was confirmed survives the end of the process, however it ends.

use std::time::Duration;

use bezoar_core::{DeadLetterIds, OrderingKey, Settlement};

use crate::{
    case::Case,
    samples::{
        after, assert_as_sent, dead_letter, failed_try, full_message, ids, message, messages,
        release,
    },
};

pub(crate) async fn ready_messages_survive(mut case: Case) {
    let sent = vec![full_message("a"), full_message("b"), full_message("c")];
    case.send_all(sent.clone()).await;
    case.restart().await;
    case.assert_depth([3, 0, 0, 0], "after a restart").await;
    let mut received = case.worker().await.consume(3).await;
    received.sort_by(|a, b| a.id.cmp(&b.id));
    received.iter().zip(&sent).for_each(|(received, sent)| assert_as_sent(received, sent));
    assert_eq!(ids(&received), ids(&sent), "every accepted message survives a restart");
}

pub(crate) async fn ordering_keys_survive(mut case: Case) {
    let key = OrderingKey::new("k").expect("valid name");
    let keyed = |id: &str| message(id).with_ordering_key(key.clone());
    case.send_all([keyed("first"), keyed("second")]).await;
    case.restart().await;
    let worker = case.worker().await;
    let first = worker.one().await;
    assert_eq!(first.message.id.as_str(), "first", "the order survives a restart");
    worker.none("a later message of a key waits for the earlier one").await;
    worker.complete(vec![first]).await;
    assert_eq!(worker.one().await.message.id.as_str(), "second");
}

pub(crate) async fn delayed_messages_survive(mut case: Case) {
    case.send(after(case.ticks(3), message("m"))).await;
    case.restart().await;
    let worker = case.worker().await;
    worker.none("a delay survives a restart").await;
    case.elapse(4).await;
    assert_eq!(worker.one().await.message.id.as_str(), "m", "a delayed message survives");
}

pub(crate) async fn leases_survive(mut case: Case) {
    case.send(message("m")).await;
    drop(case.worker().await.one().await);
    case.restart().await;
    let worker = case.worker().await;
    worker.none("a lease survives a restart: its worker may run elsewhere").await;
    case.outlast_leases().await;
    let held = worker.one().await;
    assert!(held.redelivered, "a handler may have run on it before");
    assert!(
        held.message.ledger.acquired >= 2,
        "the acquisition of a process that died stays counted"
    );
}

pub(crate) async fn a_settlement_before_the_restart_stands(mut case: Case) {
    case.send_all(messages(3)).await;
    let worker = case.worker().await;
    for settlement in [Settlement::Complete, dead_letter(), release(Duration::ZERO)] {
        worker.settle(worker.one().await, settlement).await;
    }
    drop(worker);
    case.restart().await;
    case.outlast_leases().await;
    case.assert_depth([1, 0, 0, 1], "after a restart").await;
}

pub(crate) async fn a_receipt_from_before_the_restart_is_stale_once_taken_over(mut case: Case) {
    case.send(message("m")).await;
    let stale = case.worker().await.one().await;
    case.restart().await;
    case.outlast_leases().await;
    let worker = case.worker().await;
    let held = worker.one().await;
    worker.refused(stale, Settlement::Complete).await;
    worker.settle(held, Settlement::Complete).await;
}

pub(crate) async fn ledgers_survive(mut case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let retry =
        Settlement::Retry { after: Duration::ZERO, tries: vec![failed_try(1), failed_try(2)] };
    worker.settle(worker.one().await, retry).await;
    worker.settle(worker.one().await, release(Duration::ZERO)).await;
    let before = worker.one().await;
    let expected = before.message.ledger.clone();
    worker.settle(before, release(Duration::ZERO)).await;
    drop(worker);
    case.restart().await;
    let ledger = case.worker().await.one().await.message.ledger.clone();
    assert_eq!((ledger.failed, ledger.released), (1, 2), "counts survive a restart");
    assert_eq!(ledger.history(), expected.history(), "the history survives a restart");
    assert!(ledger.acquired > expected.acquired, "acquisitions continue from the stored count");
}

pub(crate) async fn dead_letters_survive(mut case: Case) {
    let dead = case.kill_these(vec![full_message("a"), full_message("b")]).await;
    case.restart().await;
    assert_eq!(case.dead().await, dead, "dead letters survive a restart complete");
    assert_eq!(case.replay(DeadLetterIds::All).await, 2, "they can be replayed");
    let back = case.worker().await.consume(2).await;
    back.iter().for_each(|back| assert_as_sent(back, &full_message(back.id.as_str())));
}

pub(crate) async fn ids_of_dead_letters_are_not_given_again(mut case: Case) {
    let first = case.kill(2).await;
    case.discard(DeadLetterIds::All).await;
    case.restart().await;
    let second = case.kill(2).await;
    assert!(
        first.iter().all(|old| second.iter().all(|new| old.id != new.id)),
        "ids are not reused after a restart"
    );
}

pub(crate) async fn empty_queues_survive(mut case: Case) {
    let other = case.other_queue().await;
    case.restart().await;
    let listed = case.admin().queues().await.expect("queues can be listed");
    assert!(listed.contains(&case.queue) && listed.contains(&other), "queues survive a restart");
    case.send(message("m")).await;
    case.worker().await.consume(1).await;
}
