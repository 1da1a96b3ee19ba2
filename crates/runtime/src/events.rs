//! What happens to messages, for logs, metrics, tests and people.

use std::{fmt::Debug, time::Duration};

use bezoar_core::{FailedTry, Message, QueueName, Reason, TransportError, UncountedFailure};

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
    Retried {
        /// When.
        after: Duration,
    },
    /// The message was set aside.
    DeadLettered {
        /// Why.
        reason: &'a Reason,
    },
    /// The attempt failed, used up no retry, and the message will return.
    NotCounted {
        /// What its ledger remembers of it.
        failure: &'a UncountedFailure,
        /// When.
        after: Duration,
    },
    /// The message was handed back without an attempt.
    Released,
    /// The lease was lost while the handler ran; somebody else may have the message.
    LeaseLost,
    /// What became of the message could not be stored; it will be delivered again.
    NotSettled(&'a TransportError),
}

/// Is told what happens. It must not block.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Something happened to a message.
    fn message(&self, queue: &QueueName, message: &Message, event: &Event<'_>);

    /// The transport is in trouble and the worker waits.
    fn paused(&self, queue: &QueueName, error: &TransportError, wait: Duration) {
        let _ = (queue, error, wait);
    }

    /// The trouble is over.
    fn resumed(&self, queue: &QueueName) {
        let _ = queue;
    }
}

/// Writes events to the log with ids and counts; never a body, a header value or an error's text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Log(pub CorrelationIds);

/// Whether correlation ids are in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CorrelationIds {
    /// They are.
    #[default]
    Shown,
    /// They are not.
    Hidden,
}

impl CorrelationIds {
    /// What the log shows of a message's.
    pub(crate) fn of(self, message: &Message) -> Option<&str> {
        let id = message.correlation_id.as_ref().filter(|_| self == Self::Shown);
        id.map(|id| id.as_str())
    }
}

impl Observer for Log {
    fn message(&self, queue: &QueueName, message: &Message, event: &Event<'_>) {
        let (id, failed) = (&message.id, message.ledger.failed);
        let correlation = self.0.of(message);
        macro_rules! log {
            ($level:ident, $text:literal $(, $($more:tt)*)?) => {
                tracing::$level!(%queue, message_id = %id, correlation_id = correlation,
                    retry_count = failed, $($($more)*,)? $text)
            };
        }
        match event {
            Event::Started => log!(trace, "started"),
            Event::TryFailed(failed_try) => {
                log!(warn, "attempt failed", kind = %failed_try.kind, code = %failed_try.code);
            }
            Event::Completed => log!(debug, "completed"),
            Event::Retried { after } => log!(info, "retried", delay_ms = after.as_millis() as u64),
            Event::DeadLettered { reason } => log!(error, "dead-lettered", reason = %reason),
            Event::NotCounted { failure, after } => {
                let delay_ms = after.as_millis() as u64;
                log!(info, "failed, uses up no retry", code = %failure.code, suspected = failure.suspected, delay_ms = delay_ms);
            }
            Event::Released => log!(info, "released"),
            Event::LeaseLost => log!(warn, "lease lost"),
            Event::NotSettled(error) => {
                let cause = std::error::Error::source(*error).map(ToString::to_string);
                log!(warn, "outcome not stored", error = %error, cause = cause);
            }
        }
    }

    fn paused(&self, queue: &QueueName, error: &TransportError, wait: Duration) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%queue, %error, cause, wait_ms = wait.as_millis() as u64, "paused");
    }

    fn resumed(&self, queue: &QueueName) {
        tracing::info!(%queue, "resumed");
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::{CorrelationId, MessageId, MessageType};

    use super::*;

    #[test]
    fn correlation_ids_are_shown_unless_they_are_to_be_hidden() {
        let id = MessageId::new("m-1").unwrap();
        let message_type = MessageType::new("lab.result").unwrap();
        let message = Message::new(id, message_type, bezoar_core::millis(0), "")
            .with_correlation_id(CorrelationId::new("c-7").unwrap());
        assert_eq!(CorrelationIds::default().of(&message), Some("c-7"));
        assert_eq!(CorrelationIds::Hidden.of(&message), None);
    }
}
