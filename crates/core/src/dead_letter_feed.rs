//! Dead letters that can only be taken from the front of a queue, as on most brokers.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use async_trait::async_trait;

use crate::{DeadLetter, DeadLetterId, Message, TransportError};

/// How many letters [`replay_all`](DeadLetterFeed#method.replay_all) has in memory at a time.
const BATCH: u32 = 200;

/// The dead letters of one queue, in the order in which the transport hands them out.
///
/// Letters stay in the queue until they are removed. A letter that was not removed is handed out again, at the latest
/// by the next feed that is opened after this one is dropped. [`Recognition`](crate::Recognition) says how to recognize
/// such a letter.
#[async_trait]
pub trait DeadLetterFeed: Debug + Send + Sync {
    /// Hands out up to `max` letters, waiting at most `wait` for the first. An empty result is not an
    /// error. Dropping the future loses nothing.
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError>;

    /// Removes letters that this feed handed out. A letter that could not be removed is handed out
    /// again.
    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError>;

    /// Sends the messages of letters that this feed handed out back to where they came from, with their
    /// ledgers. One result each, in order. `Ok` means durable and routed. The letters themselves stay until
    /// they are removed.
    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>>;
}

impl dyn DeadLetterFeed {
    /// Replays up to `most` letters as a new generation, until no letter arrives within `wait`. Returns
    /// how many were replayed and removed.
    ///
    /// Pass the current number of letters as `most`, so that a letter that is dead-lettered again
    /// meanwhile is not replayed twice. After a crash between replaying a letter and removing it, both
    /// the message and the letter exist.
    ///
    /// # Errors
    ///
    /// The first error of the transport. What was replayed before stays replayed.
    pub async fn replay_all(&self, most: u64, wait: Duration) -> Result<u64, TransportError> {
        let mut count = 0;
        while let Some(letters) = self.batch(most - count, wait).await? {
            let (ids, messages): (Vec<_>, Vec<_>) = letters.into_iter().map(replayed).unzip();
            let (mut sent, mut failed) = (Vec::new(), None);
            for (id, result) in ids.into_iter().zip(self.replay(&messages).await) {
                match result {
                    Ok(()) => sent.push(id),
                    Err(error) => failed = Some(error),
                }
            }
            self.remove(&sent).await?;
            count += sent.len() as u64;
            failed.map_or(Ok(()), Err)?;
        }
        Ok(count)
    }

    /// Discards up to `most` letters, until no letter arrives within `wait`. Returns how many.
    ///
    /// # Errors
    ///
    /// The first error of the transport. What was removed before is gone.
    pub async fn discard_all(&self, most: u64, wait: Duration) -> Result<u64, TransportError> {
        let mut count = 0;
        while let Some(letters) = self.batch(most - count, wait).await? {
            let ids: Vec<_> = letters.iter().map(|letter| letter.id).collect();
            self.remove(&ids).await?;
            count += ids.len() as u64;
        }
        Ok(count)
    }

    /// The next letters, at most `left`; `None` if there are no more or `left` is 0.
    async fn batch(
        &self,
        left: u64,
        wait: Duration,
    ) -> Result<Option<Vec<DeadLetter>>, TransportError> {
        let max = u32::try_from(left).unwrap_or(u32::MAX).min(BATCH);
        let Some(max) = NonZeroU32::new(max) else { return Ok(None) };
        let letters = self.next(max, wait).await?;
        Ok((!letters.is_empty()).then_some(letters))
    }
}

fn replayed(letter: DeadLetter) -> (DeadLetterId, Message) {
    let mut message = letter.message;
    message.ledger.replay();
    (letter.id, message)
}
