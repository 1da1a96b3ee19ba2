//! Messages with the same key are handled one at a time, in the order of sending.

use std::time::Duration;

use bezoar_core::{Acceptance, DeadLetterIds, Message, OrderingKey, Outgoing, Settlement};

use crate::{
    case::Case,
    samples::{after, dead_letter, message, release, retry},
    worker::Worker,
};

const ORDER: &str = "a later message of a key waits for the earlier one";

fn keyed(id: &str, key: &str) -> Message {
    message(id).with_ordering_key(OrderingKey::new(key).expect("valid name"))
}

async fn next(worker: &Worker) -> String {
    worker.consume(1).await.remove(0).id.to_string()
}

pub(crate) async fn later_messages_of_a_key_wait(case: Case) {
    case.send(keyed("first", "k")).await;
    case.send(keyed("second", "k")).await;
    let (worker, other) = (case.worker().await, case.worker().await);
    let first = worker.one().await;
    assert_eq!(first.message.id.as_str(), "first", "the first that was sent comes first");
    assert_eq!(first.message.ordering_key, keyed("m", "k").ordering_key, "the key comes back");
    other.none(ORDER).await;
    worker.complete(vec![first]).await;
    assert_eq!(next(&other).await, "second", "it is delivered once the earlier one is completed");
    other.none("only two messages were sent").await;
}

pub(crate) async fn a_batch_of_one_key_is_handed_out_one_at_a_time(case: Case) {
    let batch: Vec<_> = (0..5).map(|number| keyed(&format!("m-{number}"), "k")).collect();
    case.send_all(batch).await;
    let worker = case.worker().await;
    for number in 0..5 {
        let held = worker.receive(16, crate::worker::PATIENCE).await;
        let ids: Vec<_> = held.iter().map(|held| held.message.id.to_string()).collect();
        assert_eq!(ids, [format!("m-{number}")], "one at a time, in the order of the batch");
        worker.complete(held).await;
    }
}

pub(crate) async fn a_retry_keeps_its_place(case: Case) {
    case.send_all([keyed("first", "k"), keyed("second", "k")]).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, retry(case.ticks(2))).await;
    worker.none(ORDER).await;
    case.elapse(3).await;
    let again = worker.one().await;
    assert_eq!(again.message.id.as_str(), "first", "a retry comes before later messages");
    worker.settle(again, release(Duration::ZERO)).await;
    assert_eq!(next(&worker).await, "first", "a released message comes before later messages");
    assert_eq!(next(&worker).await, "second");
}

pub(crate) async fn a_dead_letter_lets_the_next_message_go(case: Case) {
    case.send_all([keyed("first", "k"), keyed("second", "k")]).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, dead_letter()).await;
    assert_eq!(next(&worker).await, "second", "a dead letter does not block its key");
}

pub(crate) async fn a_lost_lease_keeps_the_place(case: Case) {
    case.send_all([keyed("first", "k"), keyed("second", "k")]).await;
    let worker = case.worker().await;
    drop(worker.one().await);
    case.outlast_leases().await;
    let again = worker.one().await;
    assert_eq!(again.message.id.as_str(), "first", "the first message is delivered again");
    worker.none(ORDER).await;
    worker.complete(vec![again]).await;
    assert_eq!(next(&worker).await, "second");
}

pub(crate) async fn keys_do_not_wait_for_each_other(case: Case) {
    case.send_all([keyed("a-1", "a"), keyed("a-2", "a"), keyed("b-1", "b"), message("none")]).await;
    let worker = case.worker().await;
    let held = worker.take(3).await;
    let mut ids: Vec<_> = held.iter().map(|held| held.message.id.to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["a-1", "b-1", "none"], "other keys, and messages without one, do not wait");
    worker.none(ORDER).await;
    worker.complete(held).await;
    assert_eq!(next(&worker).await, "a-2");
}

pub(crate) async fn a_key_is_of_its_queue(case: Case) {
    let other = case.other_queue().await;
    case.send(keyed("here", "k")).await;
    let sent = case.transport().send(&(&other).into(), &[keyed("there", "k").into()]).await;
    assert!(sent.iter().all(Result::is_ok), "another queue accepts the same key");
    let _held = case.worker().await.one().await;
    let there = case.worker_of(&other).await.one().await;
    assert_eq!(there.message.id.as_str(), "there", "the same key of another queue does not wait");
}

pub(crate) async fn a_delay_holds_up_its_key(case: Case) {
    case.send(after(case.ticks(2), keyed("delayed", "k"))).await;
    case.send(keyed("ready", "k")).await;
    case.send(after(case.ticks(6), keyed("late", "k"))).await;
    let worker = case.worker().await;
    worker.none(ORDER).await;
    case.elapse(3).await;
    assert_eq!(next(&worker).await, "delayed");
    assert_eq!(next(&worker).await, "ready");
    worker.none("a delay still applies after the wait for an earlier message").await;
    case.elapse(4).await;
    assert_eq!(next(&worker).await, "late");
}

pub(crate) async fn a_replayed_message_joins_at_the_end_of_its_key(case: Case) {
    case.send_all([keyed("first", "k"), keyed("second", "k"), keyed("third", "k")]).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, dead_letter()).await;
    let second = worker.one().await;
    assert_eq!(case.replay(DeadLetterIds::All).await, 1);
    worker.none(ORDER).await;
    worker.settle(second, Settlement::Complete).await;
    assert_eq!(next(&worker).await, "third", "the message that waited longer comes first");
    assert_eq!(next(&worker).await, "first", "a replayed message comes last");
}

pub(crate) async fn depth_counts_what_waits_for_its_key_as_delayed(case: Case) {
    case.send_all([keyed("first", "k"), keyed("second", "k"), keyed("third", "k")]).await;
    case.assert_depth([1, 2, 0, 0], "after sending three of one key").await;
    let worker = case.worker().await;
    let held = worker.one().await;
    case.assert_depth([0, 2, 1, 0], "after receiving").await;
    worker.complete(vec![held]).await;
    case.assert_depth([1, 1, 0, 0], "after completing").await;
    for id in ["second", "third"] {
        assert_eq!(next(&worker).await, id);
    }
    case.assert_depth([0, 0, 0, 0], "in the end").await;
}

pub(crate) async fn what_is_not_kept_is_refused(case: Case) {
    let (can, tick) = (case.can(), case.ticks(1));
    let expiring = message("expiring").with_expires_at(bezoar_core::millis(4_000_000_000_000));
    let asked: [(&str, bool, Outgoing); 3] = [
        ("once", can.deduplication, Outgoing::from(message("once")).once(tick)),
        ("an expiry", can.time_to_live, expiring.into()),
        ("an ordering key", can.ordering_keys, keyed("keyed", "k").into()),
    ];
    for (what, kept, outgoing) in asked {
        let result = case.try_send(&[outgoing]).await.pop().expect("there is one");
        match (kept, result.map_err(|error| error.kind)) {
            (true, result) => {
                assert_eq!(result, Ok(Acceptance::New), "{what} is declared and must be accepted")
            }
            (false, Err(bezoar_core::ErrorKind::Unsupported(_))) => (),
            (false, result) => panic!("{what} is not declared and must be refused: {result:?}"),
        }
    }
}
