//! A feed of dead letters: the reference for transports that only have a feed.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterFeed, DeadLetterId, DeadLetterIds, MAX_DELAY, Message, QueueName,
    TransportError,
};
use tokio::time::{Instant, timeout_at};

use crate::{MemoryTransport, admin::find, error::error};

#[derive(Debug)]
pub(crate) struct MemoryFeed {
    transport: MemoryTransport,
    queue: QueueName,
    /// Letters that were handed out and not removed; available to others once the feed is dropped.
    handed_out: Mutex<Vec<DeadLetterId>>,
}

impl MemoryFeed {
    pub(crate) fn new(transport: MemoryTransport, queue: QueueName) -> Self {
        Self { transport, queue, handed_out: Mutex::default() }
    }

    /// Hands out letters that no open feed has handed out yet.
    fn take(&self, max: usize) -> Vec<DeadLetter> {
        self.transport.step(|state, _| {
            let Some(queue) = state.queues.get_mut(&self.queue) else { return Vec::new() };
            let free = queue.dead.values().filter(|(_, letter)| !queue.fed.contains(&letter.id));
            let letters: Vec<_> = free.take(max).map(|(_, letter)| letter.clone()).collect();
            queue.fed.extend(letters.iter().map(|letter| letter.id));
            self.with_handed_out(|ids| ids.extend(letters.iter().map(|letter| letter.id)));
            letters
        })
    }

    fn with_handed_out<T>(&self, work: impl FnOnce(&mut Vec<DeadLetterId>) -> T) -> T {
        work(&mut self.handed_out.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl DeadLetterFeed for MemoryFeed {
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY); // a longer wait would overflow the instant
        loop {
            let bell = self.transport.step(|state, _| {
                find(state, &self.queue, "next").map(|queue| queue.letters.clone())
            })?;
            // Subscribes to the signal before the query, so that no letter in between is missed.
            let mut rung = std::pin::pin!(bell.notified());
            rung.as_mut().enable();
            let letters = self.take(max.get() as usize);
            if !letters.is_empty() || timeout_at(deadline, rung).await.is_err() {
                return Ok(letters);
            }
        }
    }

    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError> {
        let ours = self.with_handed_out(|ids| {
            let (gone, kept) = ids.drain(..).partition(|id| letters.contains(id));
            *ids = kept;
            gone
        });
        self.transport
            .step(|state, now| state.discard(&self.queue, &DeadLetterIds::Ids(ours), now));
        Ok(())
    }

    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>> {
        let replay = |message: &Message| {
            self.transport.step(|state, now| {
                find(state, &self.queue, "replay")?;
                let sent = state.send(&self.queue, &message.clone().into(), now);
                sent.map(drop).map_err(|kind| error(kind, "replay"))
            })
        };
        messages.iter().map(replay).collect()
    }
}

impl Drop for MemoryFeed {
    fn drop(&mut self) {
        let ids = self.with_handed_out(std::mem::take);
        self.transport.step(|state, _| {
            if let Some(queue) = state.queues.get_mut(&self.queue) {
                queue.fed.retain(|id| !ids.contains(id));
                queue.letters.notify_waiters();
            }
        });
    }
}
