//! Events about messages, for logs, metrics and tests.

use std::{fmt::Debug, time::Duration};

use bezoar_core::{
    Decision, FailedTry, Message, QueueName, Reason, TransportError, UncountedFailure,
};

/// An event. It is reported once it is certain: an outcome after its settlement was stored.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A handler starts to handle a message.
    Started,
    /// A try failed; another may follow immediately.
    TryFailed(&'a FailedTry),
    /// The handler succeeded and the message was removed.
    Completed,
    /// The attempt failed and the message will be delivered again.
    #[non_exhaustive]
    Retried {
        /// The delay before the next delivery.
        after: Duration,
        /// The last try of the attempt.
        last: Option<&'a FailedTry>,
        /// What the retry strategy decided: the retry's number, and the maximum.
        decision: Option<&'a Decision>,
    },
    /// The message was dead-lettered.
    #[non_exhaustive]
    DeadLettered {
        /// The reason in the dead letter.
        reason: &'a Reason,
        /// The last try of the attempt; `None` if no handler ran.
        last: Option<&'a FailedTry>,
        /// What the retry strategy decided; `None` if it was not called, for example because the message was delivered
        /// too often without an outcome.
        decision: Option<&'a Decision>,
    },
    /// The attempt failed but used up no retry, and the message will be delivered again.
    NotCounted {
        /// The entry in the message's ledger.
        failure: &'a UncountedFailure,
        /// The delay before the next delivery.
        after: Duration,
    },
    /// The message was released without an attempt.
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
