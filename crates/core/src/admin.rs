//! The operator's side of the contract.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{DeadLetter, DeadLetterId, Message, QueueName, TransportError};

/// What operators do with queues.
#[async_trait]
pub trait QueueAdmin: Debug + Send + Sync + 'static {
    /// Creates what the queue needs and is missing. Doing it again changes nothing.
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError>;

    /// What is wrong with the queue, and what to do about it. Changes nothing.
    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError>;

    /// The queues that are there, by name.
    async fn queues(&self) -> Result<Vec<QueueName>, TransportError>;

    /// How many messages are where.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError>;

    /// Dead letters in the order of their ids. A page may be shorter than asked for, to bound its bytes;
    /// only an empty one is the end.
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError>;

    /// Sends dead letters back to their queue as a new generation, each once. Returns how many; one that
    /// is no longer there is passed over.
    async fn replay(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError>;

    /// Removes dead letters for good. Returns how many; one that is no longer there is passed over.
    async fn discard(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError>;

    /// Opens a queue's dead letters for being taken elsewhere; `None` where they are in a store with a catalogue
    /// anyway.
    async fn dead_letter_feed(
        &self,
        _queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        Ok(None)
    }
}

/// Dead letters on a broker, on their way to a catalogue and back.
#[async_trait]
pub trait DeadLetterFeed: Debug + Send + Sync {
    /// Up to `max`, waiting at most `wait` for the first. They stay on the broker until they are removed: what is
    /// not removed comes again, at the latest to whoever opens the next feed. Dropping the future loses nothing.
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError>;

    /// Removes letters that are kept elsewhere now. One that cannot be removed comes again.
    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError>;

    /// Sends messages that had been taken back to where they came from, with their ledgers; one result each, in
    /// order. `Ok` means durable and routed.
    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>>;
}

/// How many messages are where; what a transport cannot tell is unknown, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Could be delivered now.
    pub ready: Option<u64>,
    /// Wait for their time.
    pub delayed: Option<u64>,
    /// With a worker.
    pub leased: Option<u64>,
    /// Set aside.
    pub dead: Option<u64>,
    /// Since when the oldest ready message could have been delivered.
    pub oldest_ready: Option<Timestamp>,
    /// Since when the oldest dead letter has been set aside.
    pub oldest_dead: Option<Timestamp>,
}

/// A part of a long list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterPage {
    /// Those with a greater id; from the start if `None`.
    pub after: Option<DeadLetterId>,
    /// At most so many.
    pub limit: NonZeroU32,
}

impl Default for DeadLetterPage {
    /// The first 100.
    fn default() -> Self {
        Self { after: None, limit: NonZeroU32::new(100).expect("100 is not 0") }
    }
}

/// Some of a queue's dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterIds {
    /// All that are there at this moment.
    All,
    /// These.
    Ids(Vec<DeadLetterId>),
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// What.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Works, and is worth knowing.
    Note,
    /// Works, and may not for long.
    Warning,
    /// Does not work, or loses messages.
    Error,
}
