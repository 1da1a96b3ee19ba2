//! The errors that a handler or a layer returns.

use std::{error::Error, fmt, time::Duration};

use bezoar_core::{Failure, FailureError, FailureKind};

/// Why a try did not succeed. Any error of a handler or a layer converts into it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The try failed.
    #[error(transparent)]
    Failed(FailureError),
    /// The try failed, but uses up no retry.
    #[error(transparent)]
    Uncounted(UncountedError),
    /// A layer did not pass the message to its handler.
    #[error(transparent)]
    Postponed(Postpone),
    /// The handler snoozed the message.
    #[error(transparent)]
    Snoozed(Snooze),
}

/// For layers: the message cannot be handled now, and is released for this long.
///
/// The handler has not run, so no attempt is counted, however often this happens: an open circuit breaker or an
/// exhausted rate limit never dead-letters a message. A handler that wants a message later returns [`Snooze`]. A wait
/// longer than the transport's [longest delay](bezoar_core::Capabilities::scheduled) is cut to it; the layer can then
/// postpone again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Postpone(pub Duration);

impl fmt::Display for Postpone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postponed by {} ms", self.0.as_millis())
    }
}

impl Error for Postpone {}

/// For handlers: releases the message for this long without using up an attempt.
///
/// Return it as an error, directly or by `?`:
///
/// ```
/// use std::time::Duration;
/// use bezoar_core::Failure;
/// use bezoar_runtime::{Json, Snooze};
///
/// async fn collect(Json(report): Json<u32>) -> Result<(), Failure> {
///     if !is_ready(report) {
///         return Err(Snooze(Duration::from_secs(60)).into());
///     }
///     Ok(())
/// }
/// # fn is_ready(report: u32) -> bool { report > 0 }
/// ```
///
/// A message may be snoozed for as long as the worker's [`uncounted`](crate::Worker::uncounted) policy lets it fail
/// without being counted: three days in total by default. A snooze beyond that is a failed attempt, with the code
/// `snooze-limit`. So is a snooze longer than the transport's [longest delay](bezoar_core::Capabilities::scheduled): a
/// message is never delivered early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snooze(pub Duration);

impl fmt::Display for Snooze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snoozed for {} ms", self.0.as_millis())
    }
}

impl Error for Snooze {}

/// A failure that uses up no retry, because it is not known to be the message's fault: nothing could be sent, the
/// other side asked to wait, or it did not answer.
///
/// The message is delivered again after a wait that grows, until the worker's
/// [`uncounted`](crate::Worker::uncounted) policy gives up. Like [`FailureError`] it does not show the detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncountedError {
    /// The failure.
    pub failure: Failure,
    /// Whether it is evidence against the message, because other messages succeed.
    pub suspected: bool,
}

impl fmt::Display for UncountedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}), uses up no retry", self.failure.kind, self.failure.code)
    }
}

impl Error for UncountedError {}

impl From<Failure> for HandlerError {
    /// Restores a snooze, an uncounted failure or a postponement that `?` wrapped in a failure.
    fn from(failure: Failure) -> Self {
        if failure.kind != FailureKind::Unknown {
            return Self::Failed(FailureError(failure));
        }
        let signal = failure.errors().find_map(|error| {
            let snoozed = error.downcast_ref().map(|snooze: &Snooze| Self::Snoozed(*snooze));
            let postponed = || error.downcast_ref().map(|it: &Postpone| Self::Postponed(*it));
            let uncounted =
                || error.downcast_ref().map(|it: &UncountedError| Self::Uncounted(it.clone()));
            snoozed.or_else(postponed).or_else(uncounted)
        });
        signal.unwrap_or(Self::Failed(FailureError(failure)))
    }
}

impl From<tower::BoxError> for HandlerError {
    fn from(error: tower::BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(already) => return *already,
            Err(error) => error,
        };
        match error.downcast::<FailureError>() {
            Ok(failed) => Self::from(failed.0),
            Err(error) => Self::from(Failure::new(FailureKind::Unknown, error)),
        }
    }
}
