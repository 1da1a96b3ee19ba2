//! Access to single dead letters by id: list, replay, discard.

use std::{fmt::Debug, num::NonZeroU32};

use async_trait::async_trait;

use crate::{DeadLetter, DeadLetterId, QueueName, TransportError};

/// Random access to the dead letters of a transport's queues. Optional: a transport that can only take
/// them from the front of a queue offers a [`DeadLetterFeed`](crate::DeadLetterFeed) instead.
#[async_trait]
pub trait DeadLetterAccess: Debug + Send + Sync {
    /// Lists dead letters and changes nothing. The transport chooses the order, which is stable: two
    /// letters never change places, and reading page after page returns each letter that stays in the
    /// queue exactly once. A page may be shorter than its limit, to bound its bytes; only an empty page is
    /// the end.
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError>;

    /// Replays dead letters to their queue as a new generation, each exactly once. Returns how many;
    /// unknown ids are ignored.
    async fn replay(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError>;

    /// Removes dead letters for good. Returns how many; unknown ids are ignored.
    async fn discard(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError>;
}

/// Which part of a queue's dead letters to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterPage {
    /// Start after this dead letter, which may be gone by now; from the beginning if `None`.
    pub after: Option<DeadLetterId>,
    /// The maximum number to list.
    pub limit: NonZeroU32,
}

impl Default for DeadLetterPage {
    /// The first 100 dead letters.
    fn default() -> Self {
        Self { after: None, limit: NonZeroU32::new(100).expect("100 is not 0") }
    }
}

/// A selection of a queue's dead letters. Exhaustive: a transport must support every
/// selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterIds {
    /// All that are in the queue at this moment.
    All,
    /// The dead letters with these ids.
    Ids(Vec<DeadLetterId>),
}
