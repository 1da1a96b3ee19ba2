//! The dead-letter feed: hands the letters of a poison queue to a catalogue.
//!
//! A letter that was handed out stays leased. If its lease expires, Azure hands it out again; the feed then only keeps
//! the new pop receipt. When the feed is dropped, its letters become visible to the next one.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterFeed, DeadLetterId, MAX_DELAY, Message, QueueName, TransportError,
};
use tokio::time::Instant;

use crate::{
    claim_check::NoBody,
    connection::queue_client::{Fetched, PopReceipt, Queue},
    consuming::fetcher::{Arrived, Fetcher},
    error::FaultKind,
    in_parallel::in_parallel,
    transport::TransportState,
    wire::{
        blob_reference::{self, BlobReference},
        poison_record,
    },
};

/// The most bytes of letters in one batch.
const BATCH_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// The most letters that are handed out and not removed.
const MOST_HELD: usize = 10_000;

#[derive(Debug)]
pub(crate) struct AzureDeadLetterFeed(Arc<FeedState>);

#[derive(Debug)]
struct FeedState {
    state: Arc<TransportState>,
    queue: QueueName,
    poison: Arc<Queue>,
    fetcher: Fetcher,
    /// The letters that were handed out and not removed. A letter has several copies if it could not be deleted from
    /// its queue the first time.
    held: Mutex<HashMap<DeadLetterId, Vec<Copy>>>,
    /// What was leased and does not fit into memory now, until it is released.
    surplus: Mutex<Vec<Copy>>,
}

/// A message of the poison queue.
#[derive(Debug, Clone)]
struct Copy {
    id: String,
    pop_receipt: PopReceipt,
    /// The body in Blob Storage.
    blob: Option<BlobReference>,
}

impl From<&Fetched> for Copy {
    fn from(fetched: &Fetched) -> Self {
        let blob = blob_reference::find(&fetched.text);
        Self { id: fetched.id.clone(), pop_receipt: fetched.pop_receipt.clone(), blob }
    }
}

impl AzureDeadLetterFeed {
    pub(crate) async fn open(
        state: Arc<TransportState>,
        queue: QueueName,
    ) -> Result<Self, TransportError> {
        state.released().await;
        let poison = Arc::new(state.ensure_poison_queue(&queue, "dead_letter_feed").await?);
        let fetcher = Fetcher::new(&state, poison.clone(), state.options.dead_letter_lease);
        Ok(Self(Arc::new(FeedState {
            state,
            queue,
            poison,
            fetcher,
            held: Mutex::default(),
            surplus: Mutex::default(),
        })))
    }
}

impl FeedState {
    fn concurrency(&self) -> u32 {
        self.state.options.limits.publish_concurrency
    }

    fn held(&self) -> MutexGuard<'_, HashMap<DeadLetterId, Vec<Copy>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn surplus(&self) -> MutexGuard<'_, Vec<Copy>> {
        self.surplus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The letter in a message of the poison queue, unless this feed has handed it out before.
    fn hand_out(&self, arrived: Arrived) -> Result<Option<DeadLetter>, TransportError> {
        let Arrived { fetched, body, .. } = arrived;
        let mut letter =
            poison_record::read(&self.queue, &fetched, self.state.options.foreign_text);
        let mut copy = Copy::from(&fetched);
        match body {
            Some(Ok(body)) => letter.message.body = body.into(),
            Some(Err(NoBody::Unavailable(fault))) => {
                return Err(fault.repeatable(&self.queue, "dead_letter_feed"));
            }
            Some(Err(NoBody::NoRoom)) => {
                self.surplus().push(copy);
                return Ok(None);
            }
            // The letter is all that is left of the message. What is stored in its place is not ours to delete.
            Some(Err(NoBody::Gone(reason))) => {
                copy.blob = None;
                letter.message = poison_record::without_body(letter.message, &reason);
            }
            None => (),
        }
        let mut held = self.held();
        let copies = held.entry(letter.id).or_default();
        let is_new = copies.is_empty();
        match copies.iter_mut().find(|it| it.id == copy.id) {
            Some(known) => *known = copy,
            None => copies.push(copy),
        }
        Ok(is_new.then_some(letter))
    }

    /// The letters that can be read. An error only if there is none.
    fn hand_out_all(&self, arrived: Vec<Arrived>) -> Result<Vec<DeadLetter>, TransportError> {
        let (mut letters, mut failed) = (Vec::new(), None);
        for it in arrived {
            match self.hand_out(it) {
                Ok(letter) => letters.extend(letter),
                Err(error) => failed = Some(error),
            }
        }
        failed.filter(|_| letters.is_empty()).map_or(Ok(letters), Err)
    }

    async fn remove(&self, letter: DeadLetterId) -> Result<(), TransportError> {
        let copies = self.held().get(&letter).cloned().unwrap_or_default();
        for copy in copies {
            match self.poison.delete(&copy.id, &copy.pop_receipt).await {
                // Somebody else removed it, or has it now and will.
                Err(fault)
                    if matches!(
                        fault.kind,
                        FaultKind::MessageNotFound | FaultKind::StaleReceipt
                    ) => {}
                deleted => {
                    deleted.map_err(|it| it.repeatable(&self.queue, "remove"))?;
                    if let (Some(bodies), Some(blob)) = (&self.state.service.bodies, &copy.blob) {
                        bodies.forget(blob).await;
                    }
                }
            }
        }
        self.held().remove(&letter);
        Ok(())
    }

    /// Makes everything that was not removed visible to other feeds. If that fails, it becomes visible by itself.
    async fn release(&self) {
        let waiting = self.fetcher.take_back().await.into_iter().map(|it| Copy::from(&it.fetched));
        let held = std::mem::take(&mut *self.held()).into_values().flatten();
        self.make_visible(held.chain(waiting).collect()).await;
        self.release_surplus().await;
    }

    async fn release_surplus(&self) {
        let surplus = std::mem::take(&mut *self.surplus());
        self.make_visible(surplus).await;
    }

    async fn make_visible(&self, copies: Vec<Copy>) {
        let release = |copy: Copy| async move {
            let _ = self.poison.update(&copy.id, &copy.pop_receipt, None, Duration::ZERO).await;
        };
        in_parallel(copies.into_iter().map(release).collect(), self.concurrency()).await;
    }
}

#[async_trait]
impl DeadLetterFeed for AzureDeadLetterFeed {
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        if self.0.held().len() >= MOST_HELD {
            return Ok(Vec::new());
        }
        self.0.release_surplus().await;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let arrived = self.0.fetcher.next(max.get(), BATCH_LIMIT_BYTES, left).await;
            let arrived = arrived.map_err(|it| it.repeatable(&self.0.queue, "dead_letter_feed"))?;
            let ended = arrived.is_empty();
            let letters = self.0.hand_out_all(arrived)?;
            if ended || !letters.is_empty() {
                return Ok(letters);
            }
        }
    }

    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError> {
        let removals = letters.iter().map(|letter| self.0.remove(*letter)).collect();
        in_parallel(removals, self.0.concurrency()).await.into_iter().collect()
    }

    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>> {
        let (state, queue) = (&self.0.state, &self.0.queue);
        let replays = messages.iter().map(|message| state.replay(queue, message)).collect();
        in_parallel(replays, self.0.concurrency()).await
    }
}

impl Drop for AzureDeadLetterFeed {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (feed, releasing) = (self.0.clone(), self.0.state.releasing());
        runtime.spawn(async move {
            feed.release().await;
            drop(releasing);
        });
    }
}
