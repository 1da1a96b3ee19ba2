//! What travels through middleware to a handler, and what comes back when it fails.

use std::{error::Error, fmt, sync::Arc, time::Duration};

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
pub struct FailureError(pub Failure);

impl fmt::Display for FailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.kind, self.0.code)
    }
}

impl Error for FailureError {}

/// No failure of the message: it is handed back without an attempt, and returns after this time.
///
/// For middleware that cannot let a message through at present: a breaker that is open, a rate that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Postpone(pub Duration);

impl fmt::Display for Postpone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postponed by {} ms", self.0.as_millis())
    }
}

impl Error for Postpone {}

/// A failure that uses up no retry, because it is not known to be the message's doing: nothing could be sent, the
/// other side asked to wait, or it gave no answer.
///
/// The message returns after a wait that grows, until the worker's
/// [`uncounted`](crate::Worker::uncounted) policy gives it up. Like [`FailureError`] it shows no detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncountedError {
    /// What happened.
    pub failure: Failure,
    /// Whether it speaks against the message, because its neighbours succeed.
    pub suspected: bool,
}

impl fmt::Display for UncountedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}), uses up no retry", self.failure.kind, self.failure.code)
    }
}

impl Error for UncountedError {}

/// Why a try did not succeed, out of any error that middleware passed on or made up itself.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// The attempt failed.
    #[error(transparent)]
    Failed(FailureError),
    /// The attempt failed, and uses up no retry.
    #[error(transparent)]
    Uncounted(UncountedError),
    /// There was no attempt.
    #[error(transparent)]
    Postponed(Postpone),
}

impl From<tower::BoxError> for HandlerError {
    fn from(error: tower::BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(already) => return *already,
            Err(error) => error,
        };
        let error = match error.downcast::<FailureError>() {
            Ok(failed) => return Self::Failed(*failed),
            Err(error) => error,
        };
        let error = match error.downcast::<UncountedError>() {
            Ok(uncounted) => return Self::Uncounted(*uncounted),
            Err(error) => error,
        };
        match error.downcast::<Postpone>() {
            Ok(postponed) => Self::Postponed(*postponed),
            Err(other) => Self::Failed(FailureError(Failure::new(FailureKind::Unknown, other))),
        }
    }
}
