//! A receive waits as long as it was told, and no longer than it must.

use std::time::Duration;

use bezoar_core::Delivery;
use futures_util::poll;
use tokio::time::timeout;

use crate::{
    case::Case,
    samples::{after, message, release},
    worker::{PATIENCE, Worker},
};

/// Longer than any case may take: whoever waits for it is not woken.
const FOREVER: Duration = Duration::from_secs(3_600);
/// How soon somebody who is woken must be awake, on a busy machine.
const AWAKE: Duration = Duration::from_secs(2);
/// This part of a tick is waited for in real time, whatever clock the transport has.
const PART: u32 = 5;

pub(crate) async fn receive_on_an_empty_queue_ends_with_its_wait(case: Case) {
    let worker = case.worker().await;
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let received = timeout(wait + PATIENCE, worker.receive(1, wait)).await;
        assert_eq!(received.expect("a receive ends with its wait").len(), 0);
    }
}

/// Starts to wait, does something, and gives what the wait brings.
async fn while_waiting(worker: &Worker, act: impl Future<Output = ()>) -> Vec<Delivery> {
    let mut waiting = std::pin::pin!(worker.receive(1, FOREVER));
    assert!(poll!(&mut waiting).is_pending(), "a receive waits for a message");
    act.await;
    waiting.await
}

pub(crate) async fn a_waiting_receive_finds_what_is_sent_meanwhile(case: Case) {
    let worker = case.worker().await;
    let received = while_waiting(&worker, case.send(message("m"))).await;
    assert_eq!(received.len(), 1, "what is sent while somebody waits is received");
}

pub(crate) async fn a_waiting_receive_wakes_when_a_message_is_sent(case: Case) {
    let worker = case.worker().await;
    let received = timeout(AWAKE, while_waiting(&worker, case.send(message("m")))).await;
    assert_eq!(received.expect("a message that is sent wakes who waits").len(), 1);
}

pub(crate) async fn a_waiting_receive_wakes_when_a_message_is_handed_back(case: Case) {
    case.send(message("m")).await;
    let (first, second) = (case.worker().await, case.worker().await);
    let held = first.one().await;
    let hand_back = first.settle(held, release(Duration::ZERO));
    let received = timeout(AWAKE, while_waiting(&second, hand_back)).await;
    assert_eq!(received.expect("a message handed back wakes who waits").len(), 1);
}

pub(crate) async fn a_waiting_receive_wakes_when_a_delay_ends(case: Case) {
    case.send(after(case.ticks(1) / PART, message("m"))).await;
    let worker = case.worker().await;
    let received = while_waiting(&worker, case.elapse(1)).await;
    assert_eq!(received.len(), 1, "a message whose time has come is received by who waits");
}

pub(crate) async fn a_waiting_receive_wakes_when_a_lease_ends(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let mut held = worker.one().await;
    let lease = (case.ticks(1) / PART).max(case.can().shortest_lease);
    worker.extend(&mut held, lease).await;
    let received = while_waiting(&worker, case.elapse(2)).await;
    assert_eq!(received.len(), 1, "a message whose lease has ended is received by who waits");
}

pub(crate) async fn an_endless_wait_is_no_error(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let received = worker.receive(1, Duration::MAX).await;
    assert_eq!(received.len(), 1, "a wait without end is as good as any");
    let mut waiting = std::pin::pin!(worker.receive(1, Duration::MAX));
    assert!(poll!(&mut waiting).is_pending(), "and it waits");
}
