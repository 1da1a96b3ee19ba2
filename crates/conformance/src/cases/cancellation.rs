//! Dropping a future loses nothing.

use std::{collections::BTreeMap, time::Duration};

use bezoar_core::MessageId;
use futures_util::poll;
use tokio::{task::yield_now, time::sleep};

use crate::{
    case::{Case, LONG},
    samples::{assert_as_sent, dead_letter, full_message, ids, message, messages, release},
    worker::Worker,
};

/// The number of different moments at which a future is dropped.
const MOMENTS: u32 = 24;
const WAIT: Duration = Duration::from_secs(3_600);

/// Polls a future once and drops it a moment later unless it is ready. The response may then be on its
/// way, or may have arrived unread.
async fn dropped_at<T>(moment: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    if let std::task::Poll::Ready(output) = poll!(&mut future) {
        return Some(output);
    }
    match moment.checked_sub(MOMENTS / 2) {
        Some(later) => sleep(Duration::from_millis(later.into())).await,
        None => {
            for _ in 0..moment {
                yield_now().await;
            }
        }
    }
    None
}

/// Drops receives at many moments, and returns how often each message was delivered nevertheless.
async fn drop_receives(worker: &Worker) -> BTreeMap<MessageId, u32> {
    let mut handed_out = BTreeMap::new();
    for moment in 0..MOMENTS {
        for held in dropped_at(moment, worker.receive(2, WAIT)).await.unwrap_or_default() {
            *handed_out.entry(held.message.id.clone()).or_default() += 1;
            worker.settle(held, release(Duration::ZERO)).await;
        }
    }
    handed_out
}

pub(crate) async fn dropped_receives_lose_nothing(case: Case) {
    let sent = messages(2 * MOMENTS as usize);
    case.send_all(sent.clone()).await;
    drop_receives(&case.worker().await).await;
    case.outlast_leases().await;
    let received = case.worker().await.consume(sent.len()).await;
    assert_eq!(
        ids(&received),
        ids(&sent),
        "all messages are delivered again, at the latest after a lease"
    );
}

pub(crate) async fn dropped_receives_count_nothing(case: Case) {
    let sent = messages(2 * MOMENTS as usize);
    case.send_all(sent.clone()).await;
    let handed_out = drop_receives(&case.worker().await).await;
    case.outlast_leases().await;
    for message in case.worker().await.consume(sent.len()).await {
        let times = handed_out.get(&message.id).copied().unwrap_or_default() + 1;
        assert_eq!(
            message.ledger.acquired, times,
            "a delivery that reached no receiver is not counted"
        );
    }
}

pub(crate) async fn a_dropped_wait_takes_nothing(case: Case) {
    let (gone, worker) = (case.worker().await, case.worker().await);
    for moment in 0..3 {
        let received = dropped_at(moment, gone.receive(1, WAIT)).await;
        assert!(received.is_none(), "a receive waits while there is no message");
    }
    case.send(message("m")).await;
    let held = worker.one().await;
    assert!(!held.redelivered, "the message was not delivered before");
}

pub(crate) async fn a_wait_dropped_while_sending_loses_nothing(case: Case) {
    let (gone, worker) = (case.worker().await, case.worker().await);
    for message in messages(10) {
        {
            let mut waiting = std::pin::pin!(gone.receive(1, WAIT));
            assert!(poll!(&mut waiting).is_pending(), "a receive waits for a message");
            case.send(message.clone()).await;
        }
        let received = worker.consume(1).await.remove(0);
        assert_eq!(received.id, message.id, "a receiver that was dropped takes no message");
        if case.counts_exactly() {
            assert_eq!(
                received.ledger.acquired, 1,
                "a delivery that reached no receiver is not counted"
            );
        }
    }
}

pub(crate) async fn a_dropped_send_is_whole_or_nothing(case: Case) {
    let mut accepted = Vec::new();
    for moment in 0..MOMENTS {
        let batch = [0, 1].map(|half| full_message(&format!("m-{moment:02}-{half}")));
        let outgoing = batch.clone().map(Into::into);
        if dropped_at(moment, case.try_send(&outgoing)).await.is_some() {
            accepted.extend(batch);
        }
    }
    let received = case.worker().await.consume_all().await;
    for message in &received {
        assert_as_sent(message, &full_message(message.id.as_str()));
    }
    let found = ids(&received);
    assert!(found.is_sorted_by(|a, b| a < b), "a message is sent once or not at all");
    assert!(ids(&accepted).iter().all(|id| found.contains(id)), "every accepted message is there");
}

pub(crate) async fn a_dropped_settlement_is_done_or_not(case: Case) {
    let sent = messages(MOMENTS as usize);
    case.send_all(sent.clone()).await;
    let worker = case.worker().await;
    let mut settled = Vec::new();
    for moment in 0..MOMENTS {
        let held = worker.one().await;
        let message = (*held.message).clone();
        if dropped_at(moment, worker.settle(held, dead_letter())).await.is_some() {
            settled.push(message);
        }
    }
    case.outlast_leases().await;
    let alive = ids(&case.worker().await.consume_all().await);
    let dead = ids(case.dead().await.iter().map(|dead| &dead.message));
    assert!(
        ids(&settled).iter().all(|id| dead.contains(id)),
        "every confirmed settlement took effect"
    );
    let mut all = [alive, dead].concat();
    all.sort();
    if !case.can().single_copy {
        all.dedup();
    }
    assert_eq!(all, ids(&sent), "each message is in the queue or a dead letter");
}

pub(crate) async fn a_dropped_renewal_leaves_the_lease_ours(case: Case) {
    case.send_all(messages(MOMENTS as usize)).await;
    let worker = case.worker().await;
    for moment in 0..MOMENTS {
        let mut held = worker.one().await;
        case.elapse_a_little().await;
        dropped_at(moment, worker.extend(&mut held, case.ticks(LONG))).await;
        worker.complete(vec![held]).await;
    }
    worker.none("completed messages are gone").await;
}

pub(crate) async fn closing_gives_back_what_was_not_handed_out(case: Case) {
    case.send_all(messages(6)).await;
    let (closed, worker) = (case.worker().await, case.worker().await);
    let held = closed.one().await.message;
    closed.close().await;
    let others = worker.take(5).await;
    assert!(
        others.iter().all(|other| other.message.id != held.id),
        "only messages that were not delivered come back"
    );
    if case.counts_exactly() {
        let counted = others.iter().all(|other| other.message.ledger.acquired == 1);
        assert!(counted, "a delivery that reached no receiver is not counted");
    }
}
