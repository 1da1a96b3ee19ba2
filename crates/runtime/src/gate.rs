//! Pausing a worker from outside.

use std::{fmt::Debug, num::NonZeroU32};

use async_trait::async_trait;
use jiff::Timestamp;

/// Decides when a worker may fetch messages: not during a pause, nor while a circuit breaker is open.
#[async_trait]
pub trait Gate: Debug + Send + Sync + 'static {
    /// Waits until messages may be fetched, and returns how many of the `free` slots may be used.
    /// Dropping the future changes nothing.
    async fn admit(&self, free: NonZeroU32) -> NonZeroU32;

    /// Whether messages may be handled now. Messages that were fetched while the gate closed are
    /// released.
    fn is_open(&self) -> bool;

    /// When an operator last resumed the worker, if it was paused. The age of failures that use up no retry does
    /// not grow during a pause.
    fn resumed_at(&self) -> Option<Timestamp> {
        None
    }
}

/// A gate that never closes.
#[derive(Debug)]
pub(crate) struct AlwaysOpen;

#[async_trait]
impl Gate for AlwaysOpen {
    async fn admit(&self, free: NonZeroU32) -> NonZeroU32 {
        free
    }

    fn is_open(&self) -> bool {
        true
    }
}
