//! Dead letters are kept complete, and can be read page by page.

use std::{collections::HashSet, time::Duration};

use bezoar_core::{DeadLetterIds, DeadLetterPage, Ledger, Settlement};

use crate::{
    case::{Case, assert_not_found},
    samples::{assert_as_sent, failed_try, full_message, ids, message, messages, reason, retry},
};

pub(crate) async fn reason_and_time_are_kept(case: Case) {
    let first = case.kill(1).await.remove(0);
    case.elapse(2).await;
    let both = case.kill_these(vec![message("later")]).await;
    let second = both.iter().find(|dead| dead.id != first.id).expect("there are two");
    assert_eq!(first.reason.code().as_str(), "sample/reason", "the code of the reason is kept");
    assert_eq!(first.reason, reason(), "the words of the reason are kept");
    assert_eq!(first.queue, case.queue, "a dead letter knows its queue");
    let between = first.at.duration_until(second.at);
    assert!(
        between >= case.ticks(2).try_into().expect("a short duration"),
        "the time is kept: {between}"
    );
}

pub(crate) async fn everything_sent_is_kept(case: Case) {
    let dead = case.kill_these(vec![full_message("m")]).await.remove(0);
    assert_as_sent(&dead.message, &full_message("m"));
    assert!(dead.message.body == full_message("m").body, "a body is kept unchanged");
}

pub(crate) async fn the_ledger_is_kept(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, retry(Duration::ZERO)).await;
    worker.settle(worker.one().await, Settlement::Release { after: Duration::ZERO }).await;
    let tries = vec![failed_try(2), failed_try(3)];
    let last = Settlement::DeadLetter { reason: reason(), tries: tries.clone() };
    worker.settle(worker.one().await, last).await;
    let mut expected = Ledger::default();
    expected.acquire();
    expected.fail(vec![failed_try(1)]);
    expected.acquire();
    expected.release();
    expected.acquire();
    expected.fail(tries);
    let mut ledger = case.dead().await.remove(0).message.ledger;
    if !case.counts_exactly() {
        ledger.acquired = 3;
    }
    assert_eq!(ledger, expected, "counts and history are kept, including the last attempt");
}

pub(crate) async fn pages_are_complete_and_in_order(case: Case) {
    let sent = messages(25);
    let order: Vec<_> = case.kill_these(sent.clone()).await.iter().map(|dead| dead.id).collect();
    for limit in [1, 4, 1_000] {
        let mut read = Vec::new();
        while read.len() <= sent.len() {
            let page = case.page_after(read.last(), limit).await;
            assert!(page.len() <= limit as usize, "a page has at most `limit` letters");
            if page.is_empty() {
                break;
            }
            read.extend(page);
        }
        let listed: Vec<_> = read.iter().map(|dead| dead.id).collect();
        assert_eq!(listed, order, "pages of {limit} keep the same order");
        let found = ids(read.iter().map(|dead| &dead.message));
        assert_eq!(found, ids(&sent), "pages of {limit} contain each letter once");
    }
}

pub(crate) async fn a_page_beyond_the_end_is_empty(case: Case) {
    let dead = case.kill(2).await;
    let page = case.page_after(dead.last(), 100).await;
    assert_eq!(page, [], "nothing comes after the last one");
}

pub(crate) async fn pages_continue_after_a_letter_that_is_gone(case: Case) {
    let dead = case.kill(4).await;
    case.discard(DeadLetterIds::Ids(vec![dead[1].id, dead[3].id])).await;
    let page = case.page_after(Some(&dead[1]), 100).await;
    assert_eq!(page, [dead[2].clone()], "the same letters follow as before");
    assert_eq!(case.page_after(Some(&dead[3]), 100).await, [], "nothing comes after the last one");
}

pub(crate) async fn the_same_message_id_is_kept_twice(case: Case) {
    let same = vec![message("same"), message("same").with_header("which", "second")];
    let dead = case.kill_these(same).await;
    assert_eq!(dead.len(), 2, "letters with the same message id are all kept");
    assert_ne!(dead[0].id, dead[1].id, "each dead letter has an id of its own");
}

pub(crate) async fn letters_of_the_same_message_id_are_told_apart(case: Case) {
    let same = vec![message("same"), message("same").with_header("which", "second")];
    let dead = case.kill_these(same).await;
    case.discard(DeadLetterIds::Ids(vec![dead[0].id])).await;
    assert_eq!(case.dead().await, [dead[1].clone()], "letters are distinguished by their own ids");
}

pub(crate) async fn listing_changes_nothing(case: Case) {
    let dead = case.kill(10).await;
    for _ in 0..2 {
        assert_eq!(case.dead().await, dead, "listing twice gives the same result");
        case.assert_depth([0, 0, 0, 10], "after listing").await;
    }
}

pub(crate) async fn access_to_an_unknown_queue_is_refused(case: Case) {
    let unknown = case.unknown_queue();
    assert_not_found(case.page(&unknown, DeadLetterPage::default()).await, &unknown);
    for ids in [DeadLetterIds::All, DeadLetterIds::Ids(Vec::new())] {
        assert_not_found(case.replay_of(&unknown, &ids).await, &unknown);
        assert_not_found(case.discard_of(&unknown, &ids).await, &unknown);
    }
}

pub(crate) async fn an_id_is_never_given_twice(case: Case) {
    let first = case.kill(3).await;
    case.discard(DeadLetterIds::All).await;
    let second = case.kill(3).await;
    case.replay(DeadLetterIds::All).await;
    case.worker().await.consume(3).await;
    let third = case.kill(3).await;
    let all: HashSet<_> = first.iter().chain(&second).chain(&third).map(|dead| dead.id).collect();
    assert_eq!(all.len(), 9, "the id of a discarded letter is not reused");
}

pub(crate) async fn a_dead_letter_is_not_delivered(case: Case) {
    case.kill(3).await;
    case.outlast_leases().await;
    case.worker().await.none("a dead letter is not delivered until it is replayed").await;
    case.assert_depth([0, 0, 0, 3], "after dead-lettering").await;
}
