//! Access to a poison queue: implement these two traits to run the processor on another kind of queue.

use std::{fmt::Debug, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{CorrelationId, FailedTry, Message, MessageId, QueueName, Reason, TransportError};

/// A queue of messages that other consumers have given up, and a place for those that are given up here too.
#[async_trait]
pub trait PoisonQueue: Debug + Send + Sync + 'static {
    /// The name of the queue.
    fn name(&self) -> &QueueName;

    /// Creates the queue, and the place for dead-letter records, unless they exist.
    ///
    /// # Errors
    ///
    /// Those of the queue. The run that needed it then fails.
    async fn create(&self) -> Result<(), TransportError>;

    /// Takes up to `max` messages, each of which nobody else gets for `invisibility`. An empty result is not an error.
    ///
    /// # Errors
    ///
    /// [`QueueNotFound`](crate::ErrorKind::QueueNotFound) has the processor [create](Self::create) the queue. Any other
    /// error fails the run. A message that cannot be read is not an error: see [`PoisonContent::Unusable`].
    async fn take(
        &self,
        max: NonZeroU32,
        invisibility: Duration,
    ) -> Result<Vec<Box<dyn PoisonMessage>>, TransportError>;
}

/// A message that was taken from a [`PoisonQueue`]. It knows how to prove that it is ours: if that changes with an
/// update, it uses the new proof from then on.
///
/// Each of its three changes may be called again after an error that is
/// [transient](TransportError::is_transient) or whose [outcome is unknown](crate::ErrorKind::OutcomeUnknown).
/// [`LeaseLost`](crate::ErrorKind::LeaseLost) says that somebody else has the message by now.
#[async_trait]
pub trait PoisonMessage: Debug + Send + Sync {
    /// The id of the message, for logs and traces.
    fn id(&self) -> &MessageId;

    /// The correlation id, if the message has one.
    fn correlation_id(&self) -> Option<&CorrelationId>;

    /// How often it was retried; 0 if the message does not say.
    fn retry_count(&self) -> u32;

    /// What to deliver.
    fn content(&self) -> PoisonContent;

    /// Updates the message in place: it has this retry count, and is invisible for `after`. Everything else that its
    /// sender wrote stays as it is.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    async fn retry(
        &mut self,
        retry_count: u32,
        after: Duration,
        failed: &FailedTry,
    ) -> Result<(), TransportError>;

    /// Stores a dead-letter record of the message, durably, and leaves the message itself alone. `failed` is the
    /// delivery that failed just now, if there was one.
    ///
    /// # Errors
    ///
    /// Those of the queue. Repeating it may store a second copy of the same record.
    async fn store_dead_letter(
        &mut self,
        reason: &Reason,
        at: Timestamp,
        failed: Option<&FailedTry>,
    ) -> Result<(), TransportError>;

    /// Deletes the message. `end` says what it ended as.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    async fn delete(&mut self, end: PoisonEnd) -> Result<(), TransportError>;
}

/// Why a message is deleted from its poison queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoisonEnd {
    /// It was delivered.
    Delivered,
    /// Its dead-letter record is stored.
    DeadLettered,
}

/// What a message of a poison queue contains.
#[derive(Debug)]
pub enum PoisonContent {
    /// A message that can be delivered, without the record that it was wrapped in.
    Message(Arc<Message>),
    /// Nothing that can ever be delivered, for this reason. The dead-letter record keeps the original bytes.
    Unusable(Reason),
    /// Something that cannot be read now, such as a body in a store that is down. The message becomes visible again
    /// by itself, and has used up nothing.
    Unavailable(TransportError),
}
