//! What happens to messages, for logs, metrics, tests and people.

use std::{fmt::Debug, time::Duration};

use bezoar_core::{
    Decision, FailedTry, Message, QueueName, Reason, TransportError, UncountedFailure,
};

/// Something that happened. Told when it is certain: an outcome after its settlement was stored.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A handler starts on a message.
    Started,
    /// A try failed; others may follow at once.
    TryFailed(&'a FailedTry),
    /// The handler succeeded and the message is gone.
    Completed,
    /// The attempt failed and the message will return.
    #[non_exhaustive]
    Retried {
        /// The delay before it returns.
        after: Duration,
        /// The last try of the attempt.
        last: Option<&'a FailedTry>,
        /// What the retry strategy decided: the retry's number, and the maximum.
        decision: Option<&'a Decision>,
    },
    /// The message was dead-lettered.
    #[non_exhaustive]
    DeadLettered {
        /// The reason that the dead letter carries.
        reason: &'a Reason,
        /// The last try of the attempt; `None` if no handler ran.
        last: Option<&'a FailedTry>,
        /// What the retry strategy decided; `None` if it was not asked, for example because the message was delivered too
        /// often without an outcome.
        decision: Option<&'a Decision>,
    },
    /// The attempt failed, used up no retry, and the message will return.
    NotCounted {
        /// The entry in the message's ledger.
        failure: &'a UncountedFailure,
        /// The delay before it returns.
        after: Duration,
    },
    /// The message was handed back without an attempt.
    Released,
    /// The lease was lost while the handler ran; another worker may have the message.
    LeaseLost,
    /// The outcome could not be stored; the message will be delivered again.
    NotSettled(&'a TransportError),
}

/// Observes events. It must not block.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Something happened to a message.
    fn message(&self, queue: &QueueName, message: &Message, event: &Event<'_>);

    /// The transport is failing; the worker waits.
    fn paused(&self, queue: &QueueName, error: &TransportError, wait: Duration) {
        let _ = (queue, error, wait);
    }

    /// The transport works again.
    fn resumed(&self, queue: &QueueName) {
        let _ = queue;
    }
}
