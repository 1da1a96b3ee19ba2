//! Dead letters that can be addressed one by one: listed, replayed, discarded.

use std::{fmt::Debug, num::NonZeroU32};

use async_trait::async_trait;

use crate::{DeadLetter, DeadLetterId, QueueName, TransportError};

/// Random access to the dead letters of a transport's queues. Optional: a transport that can only take
/// them from the front of a queue offers a [`DeadLetterFeed`](crate::DeadLetterFeed) instead.
#[async_trait]
pub trait DeadLetterAccess: Debug + Send + Sync {
    /// Lists dead letters and changes nothing. Their order is the transport's own and stable: two letters
    /// never change places, and whoever asks for one page after the other sees each letter that is there
    /// all the while exactly once. A page may be shorter than its limit, to bound its bytes; only an empty
    /// page is the end.
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError>;

    /// Sends dead letters back to their queue as a new generation, each once. Returns how many; ids that
    /// are not there are ignored.
    async fn replay(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError>;

    /// Removes dead letters for good. Returns how many; ids that are not there are ignored.
    async fn discard(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError>;
}

/// A part of a queue's dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterPage {
    /// Only those that are listed after this one, which may be gone by now; from the start if `None`.
    pub after: Option<DeadLetterId>,
    /// The most to list.
    pub limit: NonZeroU32,
}

impl Default for DeadLetterPage {
    /// The first 100.
    fn default() -> Self {
        Self { after: None, limit: NonZeroU32::new(100).expect("100 is not 0") }
    }
}

/// Which of a queue's dead letters. Closed: a transport has to carry out every selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterIds {
    /// All that are there at this moment.
    All,
    /// Those with these ids.
    Ids(Vec<DeadLetterId>),
}
