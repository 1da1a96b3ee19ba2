//! Operators see queues and their depth, and errors name unknown queues.

use std::time::Duration;

use bezoar_core::{DeadLetterIds, Severity};
use jiff::Timestamp;

use crate::{
    case::{Case, LEASE, assert_not_found},
    samples::{after, dead_letter, message, messages, retry},
};

pub(crate) async fn depth_follows_a_message_through_its_life(case: Case) {
    let worker = case.worker().await;
    case.assert_depth([0, 0, 0, 0], "at first").await;
    case.send_all(messages(3)).await;
    case.assert_depth([3, 0, 0, 0], "after sending").await;
    let held = worker.take(2).await;
    case.assert_depth([1, 0, 2, 0], "after receiving").await;
    for (held, settlement) in held.into_iter().zip([retry(Duration::ZERO), dead_letter()]) {
        worker.settle(held, settlement).await;
    }
    case.assert_depth([2, 0, 0, 1], "after settling").await;
    case.replay(DeadLetterIds::All).await;
    case.assert_depth([3, 0, 0, 0], "after replaying").await;
    worker.consume(3).await;
    case.assert_depth([0, 0, 0, 0], "in the end").await;
}

pub(crate) async fn depth_counts_an_expired_lease_as_ready(case: Case) {
    case.send_all(messages(2)).await;
    let _held = case.worker().await.take(2).await;
    case.assert_depth([0, 0, 2, 0], "while leased").await;
    case.outlast_leases().await;
    case.assert_depth([2, 0, 0, 0], "after the leases expired").await;
}

pub(crate) async fn depth_counts_a_delay_that_has_ended_as_ready(case: Case) {
    case.send(after(case.ticks(2), message("delayed"))).await;
    case.send(message("retried")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, retry(case.ticks(2))).await;
    case.assert_depth([0, 2, 0, 0], "while delayed").await;
    case.elapse(3).await;
    case.assert_depth([2, 0, 0, 0], "after the delays ended").await;
}

/// The time at which the oldest ready message became ready.
async fn oldest(case: &Case) -> Option<Timestamp> {
    case.depth().await.oldest_ready
}

pub(crate) async fn the_oldest_ready_message_tells_its_age(case: Case) {
    assert_eq!(oldest(&case).await, None, "an empty queue has no oldest message");
    case.send(after(case.ticks(2), message("delayed"))).await;
    assert_eq!(oldest(&case).await, None, "a delayed message is not ready");
    case.send(message("first")).await;
    let first = oldest(&case).await;
    case.elapse(3).await;
    case.send(message("last")).await;
    assert_eq!(oldest(&case).await, first, "the oldest stays the oldest");
    let Some(first) = first else { return case.cannot_tell_ages() };
    let worker = case.worker().await;
    worker.consume(1).await;
    let second = oldest(&case).await.expect("two more are ready");
    let delay = first.duration_until(second).unsigned_abs();
    // Of the delay of two ticks, sending the other message took a little where time really passes.
    assert!(delay >= case.ticks(1), "a delay does not count as age: {delay:?}");
    worker.consume(2).await;
    assert_eq!(oldest(&case).await, None, "an empty queue has no oldest message");
}

pub(crate) async fn the_age_of_a_returned_message_begins_with_its_return(case: Case) {
    case.send(message("m")).await;
    let held = case.worker().await.one().await;
    assert_eq!(oldest(&case).await, None, "a leased message is not ready");
    case.elapse(LEASE + 2).await;
    match oldest(&case).await {
        Some(since) => assert_eq!(Some(since), held.lease_until, "ready since its lease ended"),
        None => case.cannot_tell_ages(),
    }
}

pub(crate) async fn the_oldest_dead_letter_tells_its_age(case: Case) {
    assert_eq!(case.depth().await.oldest_dead, None, "nothing is dead");
    let first = case.kill(1).await.pop().expect("it is a dead letter").at;
    case.elapse(2).await;
    case.kill(1).await;
    match case.depth().await.oldest_dead {
        Some(since) => assert_eq!(since, first, "the oldest stays the oldest"),
        None => case.cannot_tell_ages(),
    }
}

pub(crate) async fn provisioning_again_keeps_everything(case: Case) {
    case.kill(1).await;
    case.send_all(messages(2)).await;
    let _held = case.worker().await.one().await;
    case.admin().provision(&case.queue).await.expect("a queue can be provisioned again");
    case.assert_depth([1, 0, 1, 1], "after provisioning again").await;
}

pub(crate) async fn queues_are_listed_by_name(case: Case) {
    let mut own = [case.other_queue().await, case.other_queue().await, case.queue.clone()];
    own.sort();
    let mut listed = case.admin().queues().await.expect("queues can be listed");
    assert!(listed.is_sorted(), "queues are listed by name");
    listed.retain(|queue| own.contains(queue));
    assert_eq!(listed, own, "each queue is listed once");
}

pub(crate) async fn a_sound_queue_has_no_findings(case: Case) {
    let findings = case.admin().validate(&case.queue).await.expect("a queue can be validated");
    let worst = findings.iter().map(|finding| finding.severity).max();
    assert!(
        worst.is_none_or(|worst| worst == Severity::Note),
        "nothing is wrong with a queue that was just provisioned: {findings:?}"
    );
}

pub(crate) async fn a_missing_queue_is_found_and_not_made(case: Case) {
    let unknown = case.unknown_queue();
    for _ in 0..2 {
        let findings = case.admin().validate(&unknown).await.expect("it can be validated");
        let worst = findings.iter().map(|finding| finding.severity).max();
        assert_eq!(worst, Some(Severity::Error), "a missing queue is found");
        let texts = findings.iter().all(|f| !f.problem.is_empty() && !f.remedy.is_empty());
        assert!(texts, "a finding says what is wrong and what to do");
    }
    let listed = case.admin().queues().await.expect("queues can be listed");
    assert!(!listed.contains(&unknown), "validating changes nothing");
}

pub(crate) async fn sending_to_an_unknown_queue_is_refused(case: Case) {
    let unknown = case.unknown_queue();
    let batch = [message("a").into(), message("b").into()];
    let results = case.transport().send(&(&unknown).into(), &batch).await;
    assert_eq!(results.len(), 2, "a batch has one result per message");
    results.into_iter().for_each(|result| assert_not_found(result, &unknown));
    let listed = case.admin().queues().await.expect("queues can be listed");
    assert!(!listed.contains(&unknown), "sending creates no queue");
}

pub(crate) async fn opening_an_unknown_queue_is_refused(case: Case) {
    let unknown = case.unknown_queue();
    let opened = case.transport().subscribe(&unknown, case.options()).await;
    assert_not_found(opened, &unknown);
}

pub(crate) async fn the_depth_of_an_unknown_queue_is_refused(case: Case) {
    let unknown = case.unknown_queue();
    assert_not_found(case.admin().depth(&unknown).await, &unknown);
}

pub(crate) async fn dead_letters_are_offered_as_declared(case: Case) {
    let (can, admin) = (case.can(), case.admin());
    let looks = admin.message_access().is_some();
    assert_eq!(looks, can.message_access, "access to messages exists exactly if declared");
    let access = admin.dead_letter_access().is_some();
    assert_eq!(access, can.dead_letter_access, "access to dead letters exists exactly if declared");
    let feed = admin.dead_letter_feed(&case.queue).await.expect("opening a feed is not an error");
    assert_eq!(feed.is_some(), can.dead_letter_feed, "a feed exists exactly if declared");
    assert!(access || feed.is_some(), "there is either access or a feed");
}
