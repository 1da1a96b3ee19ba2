//! A feed of dead letters: hands out each once, keeps each until it is removed, replays it
//! complete.

use std::{collections::HashSet, num::NonZeroU32, time::Duration};

use bezoar_core::{DeadLetter, DeadLetterFeed, DeadLetterId, Message};
use futures_util::poll;

use crate::{
    case::{Case, assert_not_found},
    samples::{assert_as_sent, full_message, ids, message, messages, reason},
    worker::PATIENCE,
};

const MANY: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// The next `count` letters, which must be there.
async fn take(feed: &dyn DeadLetterFeed, count: usize) -> Vec<DeadLetter> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let most = NonZeroU32::new((count - taken.len()) as u32).expect("some are missing");
        let some = feed.next(most, PATIENCE).await.expect("a feed can be read");
        assert!(!some.is_empty(), "got {} of {count} letters that must be there", taken.len());
        taken.extend(some);
    }
    taken
}

/// Asserts that the feed has no further letter, because of this promise.
async fn none(case: &Case, feed: &dyn DeadLetterFeed, promise: &str) {
    let more = feed.next(MANY, case.lag()).await.expect("a feed can be read");
    assert!(more.is_empty(), "{promise}; got {:?}", letter_ids(&more));
}

async fn remove(feed: &dyn DeadLetterFeed, letters: &[DeadLetter]) {
    let ids: Vec<_> = letter_ids(letters).into_iter().collect();
    feed.remove(&ids).await.expect("a letter can be removed");
}

fn letter_ids(letters: &[DeadLetter]) -> HashSet<DeadLetterId> {
    letters.iter().map(|letter| letter.id).collect()
}

fn message_ids(letters: &[DeadLetter]) -> Vec<bezoar_core::MessageId> {
    ids(letters.iter().map(|letter| &letter.message))
}

pub(crate) async fn a_feed_hands_out_every_letter_once(case: Case) {
    case.kill(30).await;
    let feed = case.feed().await;
    let letters = take(&*feed, 30).await;
    assert_eq!(message_ids(&letters), ids(&messages(30)), "every letter is handed out");
    assert_eq!(letter_ids(&letters).len(), 30, "each has an id of its own");
    none(&case, &*feed, "a letter is handed out once").await;
}

pub(crate) async fn a_letter_in_a_feed_is_whole(case: Case) {
    case.kill_these(vec![full_message("m")]).await;
    let letter = take(&*case.feed().await, 1).await.remove(0);
    assert_as_sent(&letter.message, &full_message("m"));
    assert_eq!(letter.reason, reason(), "the reason is kept");
    assert_eq!(letter.message.ledger.failed, 1, "the ledger is kept");
    assert_eq!(letter.message.ledger.history().len(), 1, "the ledger is kept");
}

pub(crate) async fn an_empty_feed_ends_with_its_wait(case: Case) {
    let feed = case.feed().await;
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let next = tokio::time::timeout(wait + PATIENCE, feed.next(MANY, wait)).await;
        let letters = next
            .expect("`next` returns when its wait is over")
            .expect("an empty feed is not an error");
        assert!(letters.is_empty(), "the feed is empty");
    }
}

pub(crate) async fn a_waiting_feed_finds_what_dies_meanwhile(case: Case) {
    let feed = case.feed().await;
    let mut waiting = std::pin::pin!(feed.next(MANY, Duration::from_secs(3_600)));
    assert!(poll!(&mut waiting).is_pending(), "a feed waits for a letter");
    let worker = case.worker().await;
    case.send(message("m")).await;
    worker.settle(worker.one().await, crate::samples::dead_letter()).await;
    assert_eq!(waiting.await.expect("a feed can be read").len(), 1, "the new letter is handed out");
}

pub(crate) async fn a_feed_hands_out_no_more_than_asked_for(case: Case) {
    case.kill(5).await;
    let feed = case.feed().await;
    let some = feed.next(NonZeroU32::new(2).expect("2 is not 0"), PATIENCE).await;
    let some = some.expect("a feed can be read");
    assert!((1..=2).contains(&some.len()), "asked for 2, got {}", some.len());
    assert_eq!(take(&*feed, 5 - some.len()).await.len() + some.len(), 5, "the others follow");
}

pub(crate) async fn reading_a_feed_removes_nothing(case: Case) {
    case.kill(5).await;
    let feed = case.feed().await;
    take(&*feed, 5).await;
    drop(feed);
    case.assert_depth([0, 0, 0, 5], "after reading").await;
}

pub(crate) async fn what_was_not_removed_is_handed_out_by_the_next_feed(case: Case) {
    case.kill(5).await;
    let feed = case.feed().await;
    let first = take(&*feed, 5).await;
    remove(&*feed, &first[..2]).await;
    drop(feed);
    let second = take(&*case.feed().await, 3).await;
    assert_eq!(letter_ids(&second), letter_ids(&first[2..]), "the same letters with the same ids");
}

pub(crate) async fn removed_letters_are_gone(case: Case) {
    case.kill(3).await;
    let feed = case.feed().await;
    let letters = take(&*feed, 3).await;
    remove(&*feed, &letters).await;
    none(&case, &*feed, "a removed letter is gone").await;
    drop(feed);
    none(&case, &*case.feed().await, "a removed letter is gone").await;
    case.assert_depth([0, 0, 0, 0], "after removing").await;
}

pub(crate) async fn removing_unknown_ids_changes_nothing(case: Case) {
    case.kill(2).await;
    let feed = case.feed().await;
    let letters = take(&*feed, 2).await;
    remove(&*feed, &letters[..1]).await;
    remove(&*feed, &letters[..1]).await;
    case.feed().await.remove(&[letters[1].id]).await.expect("a letter of another feed is ignored");
    drop(feed);
    assert_eq!(letter_ids(&take(&*case.feed().await, 1).await), letter_ids(&letters[1..]));
}

pub(crate) async fn two_feeds_share_the_letters(case: Case) {
    case.kill(10).await;
    let (first, second) = (case.feed().await, case.feed().await);
    let some = first.next(MANY, PATIENCE).await.expect("a feed can be read");
    remove(&*first, &some).await;
    drop(first);
    let others = take(&*second, 10 - some.len()).await;
    assert!(letter_ids(&some).is_disjoint(&letter_ids(&others)), "each is handed out once");
    none(&case, &*second, "each is handed out once").await;
}

/// The message of a letter as the next generation.
fn replayed(letter: &DeadLetter) -> Message {
    let mut message = letter.message.clone();
    message.ledger.replay();
    message
}

async fn replay(feed: &dyn DeadLetterFeed, messages: &[Message]) {
    let results = feed.replay(messages).await;
    assert_eq!(results.len(), messages.len(), "a replay has one result per message");
    for result in results {
        result.expect("a letter that was handed out can be replayed");
    }
}

pub(crate) async fn a_replayed_letter_is_delivered_with_its_ledger(case: Case) {
    case.kill_these(vec![full_message("m")]).await;
    let feed = case.feed().await;
    let letters = take(&*feed, 1).await;
    replay(&*feed, &[replayed(&letters[0])]).await;
    remove(&*feed, &letters).await;
    let worker = case.worker().await;
    let held = worker.one().await;
    assert_as_sent(&held.message, &full_message("m"));
    let ledger = &held.message.ledger;
    assert_eq!((ledger.replayed, ledger.failed), (1, 0), "it is a new generation");
    assert_eq!(ledger.history(), letters[0].message.ledger.history(), "the history stays");
    worker.none("a replayed message is delivered once").await;
}

pub(crate) async fn a_replay_leaves_the_letter_until_it_is_removed(case: Case) {
    case.kill(1).await;
    let feed = case.feed().await;
    let letters = take(&*feed, 1).await;
    replay(&*feed, &[replayed(&letters[0])]).await;
    drop(feed);
    let again = take(&*case.feed().await, 1).await;
    assert_eq!(
        letter_ids(&again),
        letter_ids(&letters),
        "a crash before the removal loses nothing"
    );
    case.worker().await.consume(1).await;
}

pub(crate) async fn a_replay_has_one_result_for_each_message(case: Case) {
    case.kill(3).await;
    let feed = case.feed().await;
    let letters = take(&*feed, 3).await;
    replay(&*feed, &[]).await;
    replay(&*feed, &letters.iter().map(replayed).collect::<Vec<_>>()).await;
    remove(&*feed, &letters).await;
    assert_eq!(ids(&case.worker().await.consume(3).await), message_ids(&letters));
}

pub(crate) async fn a_dropped_next_loses_nothing(case: Case) {
    case.kill(5).await;
    let feed = case.feed().await;
    let mut found = Vec::new();
    for _ in 0..5 {
        let mut next = std::pin::pin!(feed.next(NonZeroU32::MIN, PATIENCE));
        if let std::task::Poll::Ready(letters) = poll!(&mut next) {
            found.extend(letters.expect("a feed can be read"));
        }
    }
    found.extend(take(&*feed, 5 - found.len()).await);
    assert_eq!(letter_ids(&found).len(), 5, "letters of a dropped `next` are handed out later");
}

pub(crate) async fn feeds_of_queues_are_separate(case: Case) {
    let other = case.other_queue().await;
    case.kill(2).await;
    none(&case, &*case.feed_of(&other).await, "another queue's letters are not handed out").await;
    assert_eq!(take(&*case.feed().await, 2).await.len(), 2);
}

pub(crate) async fn opening_a_feed_of_an_unknown_queue_is_refused(case: Case) {
    let unknown = case.unknown_queue();
    assert_not_found(case.admin().dead_letter_feed(&unknown).await, &unknown);
}
