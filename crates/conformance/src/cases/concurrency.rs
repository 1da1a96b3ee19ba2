//! Many senders and receivers at once: each message is delivered to exactly one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar_core::{DeadLetterIds, Destination, Message};
use futures_util::future::join_all;
use tokio::task::{JoinSet, yield_now};

use crate::{
    case::Case,
    samples::{dead_letter, ids, message, messages},
    worker::Worker,
};

/// Sends `messages` from `senders` tasks, in small batches.
fn send_from(case: &Case, senders: usize, messages: &[Message]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for share in messages.chunks(messages.len() / senders) {
        let (transport, to) = (case.transport(), Destination::from(&case.queue));
        let share: Vec<_> = share.iter().cloned().map(Into::into).collect();
        tasks.spawn(async move {
            for batch in share.chunks(5) {
                for result in transport.send(&to, batch).await {
                    result.expect("a message that fits is accepted");
                }
            }
        });
    }
    tasks
}

/// Receives and completes in one task per worker, until all of them together have received `total`
/// messages.
fn receive_with(workers: Vec<Worker>, total: usize) -> JoinSet<Vec<Message>> {
    const MOST_EMPTY: usize = 1_000;
    let (mut tasks, received) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for worker in workers {
        let received = received.clone();
        tasks.spawn(async move {
            let (mut own, mut empty) = (Vec::new(), 0);
            while received.load(Ordering::SeqCst) < total && empty < MOST_EMPTY {
                let some = worker.receive(7, Duration::from_millis(20)).await;
                empty += usize::from(some.is_empty());
                received.fetch_add(some.len(), Ordering::SeqCst);
                own.extend(some.iter().map(|held| (*held.message).clone()));
                yield_now().await; // lets others receive while this handler runs
                worker.complete(some).await;
            }
            own
        });
    }
    tasks
}

async fn workers(case: &Case, count: usize) -> Vec<Worker> {
    join_all((0..count).map(|_| case.worker())).await
}

async fn assert_each_once(case: &Case, received: Vec<Vec<Message>>, sent: &[Message]) {
    assert_eq!(ids(received.iter().flatten()), ids(sent), "each message is received once");
    case.worker().await.none("each message is received once").await;
    case.assert_depth([0, 0, 0, 0], "after all were completed").await;
}

pub(crate) async fn many_receivers_get_each_message_once(case: Case) {
    let sent = messages(400);
    case.send_all(sent.clone()).await;
    let received = receive_with(workers(&case, 8).await, sent.len()).join_all().await;
    assert_each_once(&case, received, &sent).await;
}

pub(crate) async fn many_senders_lose_nothing(case: Case) {
    let sent = messages(400);
    send_from(&case, 8, &sent).join_all().await;
    let received = case.worker().await.consume(sent.len()).await;
    assert_each_once(&case, vec![received], &sent).await;
}

pub(crate) async fn senders_and_receivers_get_along(case: Case) {
    let sent = messages(400);
    let receivers = receive_with(workers(&case, 4).await, sent.len());
    send_from(&case, 4, &sent).join_all().await;
    assert_each_once(&case, receivers.join_all().await, &sent).await;
}

pub(crate) async fn one_subscription_serves_many_receivers(case: Case) {
    let sent = messages(40);
    case.send_all(sent.clone()).await;
    let worker = case.worker().await;
    let received = join_all((0..8).map(|_| worker.consume(5))).await;
    assert_each_once(&case, received, &sent).await;
}

pub(crate) async fn one_of_many_settlements_wins(case: Case) {
    case.send_all(messages(10)).await;
    let workers = workers(&case, 4).await;
    for held in workers[0].take(10).await {
        let settlements = (0..4).map(|_| workers[0].try_settle(held.copy(), dead_letter()));
        let won = join_all(settlements).await.iter().filter(|result| result.is_ok()).count();
        assert_eq!(won, 1, "a delivery is settled once");
    }
    assert_eq!(case.dead().await.len(), 10, "a message is dead-lettered once");
}

pub(crate) async fn one_of_many_replays_wins(case: Case) {
    case.kill(20).await;
    case.send(message("alive")).await;
    let replayed = join_all((0..4).map(|_| case.replay(DeadLetterIds::All))).await;
    assert_eq!(replayed.iter().sum::<u64>(), 20, "each dead letter is replayed once");
    assert_eq!(case.worker().await.consume_all().await.len(), 21, "each is delivered once");
}
