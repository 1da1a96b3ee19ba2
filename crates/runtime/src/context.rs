//! What travels through middleware to a handler, and what comes back when it fails.

use std::{error::Error, fmt, sync::Arc};

use bezoar_core::{Failure, FailureKind, Message, QueueName};

/// A message on its way to a handler: the request of every `tower` service here. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    /// The message, its present acquisition counted.
    pub message: Arc<Message>,
    /// The queue that it came from.
    pub queue: QueueName,
    /// The attempt, from 1, as the policy counts them.
    pub attempt: u32,
    /// Whether somebody may have worked on it before without leaving a trace.
    pub redelivered: bool,
}

/// A [`Failure`] as an error, so that any `tower` middleware can carry it.
///
/// It shows kind and code, never the detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(pub Failure);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.kind, self.0.code)
    }
}

impl Error for Failed {}

impl Failed {
    /// The failure in any error that middleware may have passed on or made up itself.
    pub(crate) fn from_any(error: tower::BoxError) -> Failure {
        match error.downcast::<Self>() {
            Ok(failed) => failed.0,
            Err(other) => Failure::new(FailureKind::Unknown, other),
        }
    }
}
