//! Errors of transports.

use std::{error::Error, fmt, time::Duration};

use crate::{Invalid, MessageId, QueueName};

/// The kind of an error, for code that must react to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The receipt is stale: the lease expired, or the delivery was already settled. Nothing was
    /// changed.
    LeaseLost,
    /// The call may or may not have taken effect. Wait for a redelivery or query the state; assume
    /// neither.
    OutcomeUnknown,
    /// The message is too large.
    TooLarge {
        /// The id of the message.
        id: MessageId,
        /// The size of the message as this transport counts it.
        actual_bytes: usize,
        /// The largest size that this transport accepts.
        limit_bytes: usize,
    },
    /// The server asks to slow down.
    Throttled {
        /// How long to wait, if the server said so.
        retry_after: Option<Duration>,
    },
    /// There is no space: a full disk, or a limit on the store.
    Full,
    /// Temporarily unavailable.
    Unavailable,
    /// The credentials are missing or insufficient.
    NotAuthorized,
    /// A different message with the same id was accepted before; see
    /// [`Outgoing::once`](crate::Outgoing::once).
    Conflict(MessageId),
    /// There is no such queue.
    QueueNotFound(QueueName),
    /// The transport does not support this, as its capabilities say.
    Unsupported(&'static str),
    /// A value was refused before anything was attempted.
    Invalid(Invalid),
    /// The stored data cannot be used: damaged, foreign, or from a newer version.
    Unusable,
    /// Any other error. It is never treated as transient.
    Other,
}

/// An error of a transport: its kind, where it happened, and its source.
///
/// It never shows a body, a header value or a secret.
#[derive(Debug)]
pub struct TransportError {
    /// The kind of an error, for code that must react to it.
    pub kind: ErrorKind,
    /// The name of the transport: `sqlite`, `memory` …
    pub transport: &'static str,
    /// The method that failed: `send`, `receive` …
    pub operation: &'static str,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ErrorKind {
    /// How long the server asked to wait, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            _ => None,
        }
    }
}

impl TransportError {
    /// An error without a source.
    pub fn new(kind: ErrorKind, transport: &'static str, operation: &'static str) -> Self {
        Self { kind, transport, operation, source: None }
    }

    /// Sets the source of the error. A plain text as the source says what to do.
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// A copy of this error, for another message of the same batch.
    pub fn again(&self) -> Self {
        let again = Self::new(self.kind.clone(), self.transport, self.operation);
        match &self.source {
            Some(source) => again.with_source(source.to_string()),
            None => again,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Throttled { .. })
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.transport, self.operation, self.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseLost => {
                f.write_str("the lease was lost; the message has been or will be delivered again")
            }
            Self::OutcomeUnknown => f.write_str("it is unknown whether the operation took effect"),
            Self::TooLarge { id, actual_bytes, limit_bytes } => write!(
                f,
                "message {id} is {actual_bytes} bytes, at most {limit_bytes} are accepted; make it smaller, or raise the limit if the transport allows that"
            ),
            Self::Throttled { .. } => f.write_str("the server asked to slow down"),
            Self::Full => {
                f.write_str("no space left; free some space (nothing that was accepted is lost)")
            }
            Self::Unavailable => f.write_str("temporarily unavailable"),
            Self::NotAuthorized => f.write_str("not authorized, check the credentials"),
            Self::Conflict(id) => write!(
                f,
                "another message with the id {id} and another body was accepted before; give this one an id of its own"
            ),
            Self::QueueNotFound(queue) => {
                write!(f, "there is no queue {queue:?}; provision it first")
            }
            Self::Unsupported(what) => write!(f, "{what} are not supported by this transport"),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Unusable => f.write_str("the stored data cannot be used"),
            Self::Other => f.write_str("failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_names_id_size_limit_and_transport() {
        let kind = ErrorKind::TooLarge {
            id: MessageId::new("m-1").unwrap(),
            actual_bytes: 9,
            limit_bytes: 8,
        };
        let text = TransportError::new(kind, "sqlite", "send").to_string();
        for part in ["sqlite", "m-1", "9 bytes", "at most 8"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
