//! A receive waits for the given time, and returns early if there is a message.

use std::time::Duration;

use bezoar_core::Delivery;
use futures_util::poll;
use tokio::time::timeout;

use crate::{
    case::Case,
    samples::{after, message, release},
    worker::{PATIENCE, Worker},
};

/// Longer than any case may take: a receive that waits this long was not woken.
const FOREVER: Duration = Duration::from_secs(3_600);
/// How soon a receive must return after it is woken, on a busy machine.
const AWAKE: Duration = Duration::from_secs(2);
/// Divides a tick: this fraction is waited for in real time, whatever clock the transport has.
const PART: u32 = 5;

pub(crate) async fn receive_on_an_empty_queue_ends_with_its_wait(case: Case) {
    let worker = case.worker().await;
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let received = timeout(wait + PATIENCE, worker.receive(1, wait)).await;
        assert_eq!(received.expect("a receive ends with its wait").len(), 0);
    }
}

/// Starts to wait, runs `act`, and returns what was received.
async fn while_waiting(worker: &Worker, act: impl Future<Output = ()>) -> Vec<Delivery> {
    let mut waiting = std::pin::pin!(worker.receive(1, FOREVER));
    assert!(poll!(&mut waiting).is_pending(), "a receive waits for a message");
    act.await;
    waiting.await
}

pub(crate) async fn a_waiting_receive_finds_what_is_sent_meanwhile(case: Case) {
    let worker = case.worker().await;
    let received = while_waiting(&worker, case.send(message("m"))).await;
    assert_eq!(received.len(), 1, "a waiting receive gets a message that is sent meanwhile");
}

pub(crate) async fn a_waiting_receive_wakes_when_a_message_is_sent(case: Case) {
    let worker = case.worker().await;
    let received = timeout(AWAKE, while_waiting(&worker, case.send(message("m")))).await;
    assert_eq!(received.expect("a new message wakes a waiting receive").len(), 1);
}

pub(crate) async fn a_waiting_receive_wakes_when_a_message_is_handed_back(case: Case) {
    case.send(message("m")).await;
    let (first, second) = (case.worker().await, case.worker().await);
    let held = first.one().await;
    let hand_back = first.settle(held, release(Duration::ZERO));
    let received = timeout(AWAKE, while_waiting(&second, hand_back)).await;
    assert_eq!(received.expect("a released message wakes a waiting receive").len(), 1);
}

pub(crate) async fn a_waiting_receive_wakes_when_a_delay_ends(case: Case) {
    case.send(after(case.ticks(1) / PART, message("m"))).await;
    let worker = case.worker().await;
    let received = while_waiting(&worker, case.elapse(1)).await;
    assert_eq!(received.len(), 1, "a waiting receive gets a message whose delay has passed");
}

pub(crate) async fn a_waiting_receive_wakes_when_a_lease_ends(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let mut held = worker.one().await;
    let lease = (case.ticks(1) / PART).max(case.can().shortest_lease);
    worker.extend(&mut held, lease).await;
    let received = while_waiting(&worker, case.elapse(2)).await;
    assert_eq!(received.len(), 1, "a waiting receive gets a message whose lease has expired");
}

pub(crate) async fn an_endless_wait_is_no_error(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let received = worker.receive(1, Duration::MAX).await;
    assert_eq!(received.len(), 1, "a receive without a time limit gets the message");
    let mut waiting = std::pin::pin!(worker.receive(1, Duration::MAX));
    assert!(poll!(&mut waiting).is_pending(), "it keeps waiting");
}
