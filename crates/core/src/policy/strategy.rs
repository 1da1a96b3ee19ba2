//! What a worker asks after a failure: any rule that says whether and when a message is tried again.

use std::{fmt::Debug, sync::Arc, time::Duration};

use rand::Rng;

use super::Decision;
use crate::{Failure, Ledger};

/// Decides what becomes of a message after a failure.
///
/// [`RetryPolicy`](crate::RetryPolicy) is the strategy that comes with the product. Your own goes behind a worker the same
/// way, with `Worker::policy`:
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
    /// What becomes of a message with this ledger after this failure. The ledger is the one before the failure is
    /// recorded: `ledger.failed` is 0 after the first attempt.
    ///
    /// It must not block. If it panics, the default policy decides.
    fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision;

    /// The longest delay that [`decide`](Self::decide) asks for of its own accord. A worker never waits longer: it shortens
    /// what exceeds this. Only a failure's `retry_after` may ask for more, up to
    /// [`MAX_RETRY_AFTER`](crate::MAX_RETRY_AFTER).
    fn largest_delay(&self) -> Duration;

    /// How often a failed handler is run again at once, within the same attempt, before
    /// [`decide`](Self::decide) is asked; from 0 to [`MAX_IMMEDIATE_RETRIES`](crate::MAX_IMMEDIATE_RETRIES). `Worker::immediate_retries` overrides it.
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
