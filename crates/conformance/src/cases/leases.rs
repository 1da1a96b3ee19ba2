//! A message is leased to one worker at a time, until the lease ends.

use std::time::Duration;

use bezoar_core::{Leases, Settlement, millis};
use jiff::Timestamp;

use crate::{
    case::{Case, LEASE, LONG},
    samples::{ids, message, messages, release},
    worker::{PATIENCE, assert_lease_lost},
};

const HELD: &str = "a leased message is not delivered to others";

pub(crate) async fn a_held_message_is_hidden_from_others(case: Case) {
    case.send(message("m")).await;
    let (first, second) = (case.worker().await, case.worker().await);
    let held = first.one().await;
    first.none(HELD).await;
    second.none(HELD).await;
    case.elapse(LEASE - 1).await;
    second.none(HELD).await;
    first.complete(vec![held]).await;
    second.none("a completed message is gone").await;
}

pub(crate) async fn a_held_message_does_not_hold_up_others(case: Case) {
    case.send_all(messages(3)).await;
    let worker = case.worker().await;
    let _first = worker.one().await;
    let rest = case.worker().await.take(2).await;
    assert_eq!(rest.len(), 2, "messages without a lease are delivered to others");
}

pub(crate) async fn a_delivery_says_when_its_lease_ends(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let mut held = worker.one().await;
    let expires = case.can().leases == Leases::Expire;
    assert_eq!(
        held.lease_until.is_some(),
        expires,
        "a lease has an end exactly where leases expire"
    );
    let Some(first) = held.lease_until else { return };
    case.elapse(1).await;
    worker.extend(&mut held, case.ticks(LEASE)).await;
    let added =
        first.duration_until(held.lease_until.expect("the lease has an end")).unsigned_abs();
    assert!(added >= case.ticks(1), "an extended lease ends later, got {added:?} more");
}

pub(crate) async fn a_receive_gives_a_message_once_however_short_its_lease(case: Case) {
    case.send_all(messages(3)).await;
    let shortest = case.options().with_lease(case.can().shortest_lease);
    let received = case.worker_with(&case.queue, shortest).await.receive(16, PATIENCE).await;
    assert!(!received.is_empty(), "three messages are ready");
    let found = ids(received.iter().map(|held| &*held.message));
    assert!(found.is_sorted_by(|a, b| a < b), "one receive returns a message once: {found:?}");
}

pub(crate) async fn expired_lease_returns_the_message(case: Case) {
    case.send_all(messages(2)).await;
    let worker = case.worker().await;
    let lost = worker.take(2).await;
    case.outlast_leases().await;
    let again = case.worker().await.take(2).await;
    assert_eq!(again.len(), lost.len(), "messages of lost leases are delivered again");
    worker.none(HELD).await;
}

pub(crate) async fn an_expired_lease_nobody_took_over_can_be_settled(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let late = worker.one().await;
    case.outlast_leases().await;
    worker.settle(late, Settlement::Complete).await;
    worker.none("a completed message is gone").await;
}

pub(crate) async fn the_shortest_and_the_longest_lease_are_accepted(case: Case) {
    let can = case.can();
    for lease in [can.shortest_lease, can.longest_lease] {
        case.send(message("m")).await;
        let worker = case.worker_with(&case.queue, case.options().with_lease(lease)).await;
        let mut held = worker.one().await;
        worker.extend(&mut held, lease).await;
        worker.complete(vec![held]).await;
    }
}

pub(crate) async fn the_receipt_decides_and_not_the_end_of_the_lease(case: Case) {
    case.send_all(messages(3)).await;
    let worker = case.worker().await;
    let mut held = worker.take(3).await;
    for (delivery, end) in held.iter_mut().zip([None, Some(millis(0)), Some(Timestamp::MAX)]) {
        delivery.lease_until = end;
        worker.extend(delivery, case.ticks(LEASE)).await;
        delivery.lease_until = end;
    }
    worker.complete(held).await;
    case.outlast_leases().await;
    worker.none("completed messages are gone").await;
}

pub(crate) async fn renewal_holds_a_message_beyond_its_first_lease(case: Case) {
    case.send(message("m")).await;
    let (worker, other) = (case.worker().await, case.worker().await);
    let mut held = worker.one().await;
    for _ in 0..3 {
        case.elapse(LEASE - 1).await;
        worker.extend(&mut held, case.ticks(LEASE)).await;
        other.none(HELD).await;
    }
    case.outlast_leases().await;
    assert!(other.one().await.redelivered, "a renewed lease expires too");
}

pub(crate) async fn an_extension_counts_from_now(case: Case) {
    case.send(message("m")).await;
    let (worker, other) = (case.worker().await, case.worker().await);
    let mut held = worker.one().await;
    worker.extend(&mut held, case.ticks(20)).await;
    worker.extend(&mut held, case.ticks(1)).await;
    case.elapse(2).await;
    assert_eq!(other.one().await.message.id.as_str(), "m", "an extension counts from now");
}

pub(crate) async fn an_extended_delivery_can_be_settled(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    let mut held = worker.one().await;
    for _ in 0..2 {
        worker.extend(&mut held, case.ticks(LEASE * 5)).await;
    }
    worker.complete(vec![held]).await;
    case.elapse(LEASE * 6).await;
    worker.none("a completed message is gone").await;
}

pub(crate) async fn extending_after_loss_is_refused(case: Case) {
    case.send(message("m")).await;
    let (first, second) = (case.worker().await, case.worker().await);
    let mut lost = first.one().await;
    case.outlast_leases().await;
    let held = second.one().await;
    assert_lease_lost(first.try_extend(&mut lost, case.ticks(LONG)).await);
    case.elapse(LEASE - 1).await;
    first.none(HELD).await;
    second.complete(vec![held]).await;
}

pub(crate) async fn extending_after_settlement_is_refused(case: Case) {
    case.send_all(messages(2)).await;
    let worker = case.worker().await;
    for settlement in [Settlement::Complete, Settlement::Release { after: Duration::ZERO }] {
        let held = worker.one().await;
        let mut stale = held.copy();
        worker.settle(held, settlement).await;
        assert_lease_lost(worker.try_extend(&mut stale, case.ticks(LONG)).await);
    }
    assert_eq!(worker.take(1).await.len(), 1, "a stale receipt keeps no lease");
}

pub(crate) async fn several_leases_are_renewed_at_once(case: Case) {
    case.send_all(messages(3)).await;
    let (worker, other) = (case.worker().await, case.worker().await);
    let mut held = worker.take(3).await;
    case.elapse(LEASE - 1).await;
    for renewed in worker.subscription.extend(&mut held, case.ticks(LEASE)).await {
        renewed.expect("a leased delivery can be extended");
    }
    case.elapse(LEASE - 1).await;
    other.none(HELD).await;
    worker.complete(held).await;
}

pub(crate) async fn a_renewal_has_one_result_for_each_delivery_in_order(case: Case) {
    case.send_all(messages(3)).await;
    let worker = case.worker().await;
    let mut held = worker.take(3).await;
    let settled = held[1].copy();
    worker.complete(vec![settled]).await;
    let results = worker.subscription.extend(&mut held, case.ticks(LEASE)).await;
    let renewed: Vec<_> = results.iter().map(Result::is_ok).collect();
    assert_eq!(renewed, [true, false, true], "one result for each, in order");
    assert!(worker.subscription.extend(&mut [], case.ticks(LEASE)).await.is_empty());
}

pub(crate) async fn a_renewal_whose_answer_was_lost_leaves_the_lease_ours(case: Case) {
    case.send_all(messages(3)).await;
    let (worker, other) = (case.worker().await, case.worker().await);
    let mut held = worker.take(3).await;
    case.elapse(1).await;
    for delivery in &held {
        worker.extend(&mut delivery.copy(), case.ticks(LEASE)).await;
    }
    case.elapse(LEASE - 1).await;
    other.none(HELD).await;
    worker.extend(&mut held[0], case.ticks(LEASE)).await;
    let released = held.pop().expect("there are three deliveries");
    let id = released.message.id.clone();
    worker.settle(released, release(Duration::ZERO)).await;
    worker.complete(held).await;
    assert_eq!(other.one().await.message.id, id, "the released message is delivered");
    other.none("completed messages are gone").await;
}
