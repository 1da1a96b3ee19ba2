//! Feeds that lose dead letters, hand them out twice, or replay them wrongly.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Body, DeadLetter, DeadLetterAccess, DeadLetterFeed, DeadLetterId, DeadLetterIds, ErrorKind,
    Message, QueueAdmin, QueueName, TransportError,
};

use super::{Control, Defect, Store, error};

pub(crate) fn controls() -> Vec<Control> {
    use Fault::*;
    let control = |name, fault: Fault, caught_by| {
        Control::new(name, move || Feeds { fault, seen: Arc::default() }, caught_by)
    };
    vec![
        control(
            "hands out a letter twice",
            HandsOutTwice,
            &["feed::a_feed_hands_out_every_letter_once"],
        ),
        control(
            "hands out letters without their bodies",
            DropsBodies,
            &["feed::a_letter_in_a_feed_is_whole"],
        ),
        control(
            "returns an error for an empty feed",
            FailsWhenEmpty,
            &["feed::an_empty_feed_ends_with_its_wait"],
        ),
        control(
            "looks once instead of waiting",
            NeverWaits,
            &["feed::a_waiting_feed_finds_what_dies_meanwhile"],
        ),
        control(
            "hands out everything at once",
            IgnoresMax,
            &["feed::a_feed_hands_out_no_more_than_asked_for"],
        ),
        control(
            "removes letters when it hands them out",
            RemovesOnNext,
            &[
                "feed::reading_a_feed_removes_nothing",
                "feed::what_was_not_removed_is_handed_out_by_the_next_feed",
                "feed::a_replay_leaves_the_letter_until_it_is_removed",
            ],
        ),
        control("removes nothing", RemovesNothing, &["feed::removed_letters_are_gone"]),
        control(
            "removes letters of another feed",
            RemovesAny,
            &["feed::removing_unknown_ids_changes_nothing"],
        ),
        control(
            "hands every letter to every feed",
            SharesNothing,
            &["feed::two_feeds_share_the_letters"],
        ),
        control(
            "replays without the ledger",
            ForgetsLedger,
            &["feed::a_replayed_letter_is_delivered_with_its_ledger"],
        ),
        control(
            "replays only the first of a batch",
            ReplaysOne,
            &["feed::a_replay_has_one_result_for_each_message"],
        ),
        control(
            "removes a letter when it is replayed",
            RemovesOnReplay,
            &["feed::a_replay_leaves_the_letter_until_it_is_removed"],
        ),
        control(
            "loses the letters of a next that is dropped",
            LosesDropped,
            &["feed::a_dropped_next_loses_nothing"],
        ),
        control(
            "hands out the letters of any queue",
            AnyQueue,
            &["feed::feeds_of_queues_are_separate"],
        ),
        control(
            "opens a feed of an unknown queue",
            OpensAny,
            &["feed::opening_a_feed_of_an_unknown_queue_is_refused"],
        ),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    HandsOutTwice,
    DropsBodies,
    FailsWhenEmpty,
    NeverWaits,
    IgnoresMax,
    RemovesOnNext,
    RemovesNothing,
    RemovesAny,
    SharesNothing,
    ForgetsLedger,
    ReplaysOne,
    RemovesOnReplay,
    LosesDropped,
    AnyQueue,
    OpensAny,
}

#[derive(Debug)]
struct Feeds {
    fault: Fault,
    /// Letters that some feed has handed out.
    seen: Arc<Mutex<Vec<DeadLetter>>>,
}

#[async_trait]
impl Defect for Feeds {
    async fn feed(
        &self,
        store: &Store,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        if self.fault == Fault::OpensAny {
            store.memory.provision(queue).await?;
        }
        let mut queue = queue.clone();
        if self.fault == Fault::AnyQueue {
            for other in store.memory.queues().await? {
                if store.memory.depth(&other).await?.dead != Some(0) {
                    queue = other;
                }
            }
        }
        let Some(inner) = store.memory.dead_letter_feed(&queue).await? else { return Ok(None) };
        let (fault, seen, store) = (self.fault, self.seen.clone(), store.clone());
        Ok(Some(Box::new(BrokenFeed { inner, fault, seen, store, queue })))
    }
}

#[derive(Debug)]
struct BrokenFeed {
    inner: Box<dyn DeadLetterFeed>,
    fault: Fault,
    seen: Arc<Mutex<Vec<DeadLetter>>>,
    store: Store,
    queue: QueueName,
}

impl BrokenFeed {
    async fn discard(&self, ids: Vec<DeadLetterId>) {
        self.store.memory.discard(&self.queue, &DeadLetterIds::Ids(ids)).await.unwrap();
    }
}

#[async_trait]
impl DeadLetterFeed for BrokenFeed {
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let max = if self.fault == Fault::IgnoresMax { NonZeroU32::MAX } else { max };
        let wait = if self.fault == Fault::NeverWaits { Duration::ZERO } else { wait };
        let mut letters = self.inner.next(max, wait).await?;
        match self.fault {
            Fault::HandsOutTwice | Fault::SharesNothing if letters.is_empty() => {
                letters = self.seen.lock().unwrap().clone();
            }
            Fault::FailsWhenEmpty if letters.is_empty() => return Err(error(ErrorKind::Other)),
            Fault::DropsBodies => {
                letters.iter_mut().for_each(|letter| letter.message.body = Body::default());
            }
            Fault::RemovesOnNext => {
                self.discard(letters.iter().map(|letter| letter.id).collect()).await;
            }
            // Letters fetched here are lost if the caller drops the future.
            Fault::LosesDropped => tokio::task::yield_now().await,
            _ => (),
        }
        self.seen.lock().unwrap().extend(letters.iter().cloned());
        Ok(letters)
    }

    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError> {
        match self.fault {
            Fault::RemovesNothing => return Ok(()),
            Fault::RemovesAny => self.discard(letters.to_vec()).await,
            _ => (),
        }
        self.inner.remove(letters).await
    }

    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>> {
        let mut messages = messages.to_vec();
        match self.fault {
            Fault::ForgetsLedger => {
                messages.iter_mut().for_each(|message| message.ledger = Default::default());
            }
            Fault::ReplaysOne => messages.truncate(1),
            Fault::RemovesOnReplay => {
                let ids = self.seen.lock().unwrap().iter().map(|letter| letter.id).collect();
                self.discard(ids).await;
            }
            _ => (),
        }
        self.inner.replay(&messages).await
    }
}
