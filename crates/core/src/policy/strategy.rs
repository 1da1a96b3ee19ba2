//! The trait that decides after a failure whether and when a message is retried.

use std::{fmt::Debug, sync::Arc, time::Duration};

use rand::Rng;

use super::Decision;
use crate::{Failure, Ledger};

/// Decides what happens to a message after a failure.
///
/// [`RetryPolicy`](crate::RetryPolicy) is the strategy that comes with Bezoar. Pass your own to `Worker::policy` in the
/// same way:
///
/// ```
/// use std::time::Duration;
///
/// use bezoar_core::{
///     Decision, Failure, FailureKind, Ledger, Reason, RetryPolicy, RetryStrategy, Rng,
/// };
///
/// /// Waits until the nightly maintenance of the database is over; follows the policy for everything else.
/// #[derive(Debug)]
/// struct AfterMaintenance(RetryPolicy);
///
/// const MAINTENANCE: Duration = Duration::from_secs(3_600);
///
/// impl RetryStrategy for AfterMaintenance {
///     fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision {
///         if failure.kind != FailureKind::Database {
///             return self.0.decide(ledger, failure, jitter);
///         }
///         if ledger.failed >= 2 {
///             let reason = Reason::new(Reason::EXHAUSTED, "the database is still down");
///             return Decision::dead_letter(ledger, reason);
///         }
///         Decision::retry(ledger, MAINTENANCE)
///     }
///
///     fn largest_delay(&self) -> Duration {
///         self.0.largest_delay().max(MAINTENANCE)
///     }
/// }
///
/// let strategy = AfterMaintenance(RetryPolicy::jobs());
/// let failure = Failure::new(FailureKind::Database, "down for maintenance");
/// let decision = strategy.decide(&Ledger::default(), &failure, &mut rand::rng());
/// assert_eq!(decision.reason.to_string(), "retry 1");
/// ```
pub trait RetryStrategy: Debug + Send + Sync + 'static {
    /// Decides what happens to a message with this ledger after this failure. The ledger does not include the
    /// failure yet: `ledger.failed` is 0 after the first attempt.
    ///
    /// It must not block. If it panics, the default policy decides.
    fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision;

    /// The longest delay that [`decide`](Self::decide) itself asks for. A worker never waits longer: it shortens any
    /// delay that exceeds this. Only a failure's `retry_after` may ask for more, up to
    /// [`MAX_RETRY_AFTER`](crate::MAX_RETRY_AFTER).
    fn largest_delay(&self) -> Duration;

    /// How often a failed handler is run again immediately, within the same attempt, before [`decide`](Self::decide) is
    /// called; from 0 to [`MAX_IMMEDIATE_RETRIES`](crate::MAX_IMMEDIATE_RETRIES). `Worker::immediate_retries` overrides
    /// it.
    fn immediate_retries(&self) -> u32 {
        0
    }
}

impl<T: RetryStrategy + ?Sized> RetryStrategy for Arc<T> {
    fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision {
        (**self).decide(ledger, failure, jitter)
    }

    fn largest_delay(&self) -> Duration {
        (**self).largest_delay()
    }

    fn immediate_retries(&self) -> u32 {
        (**self).immediate_retries()
    }
}
