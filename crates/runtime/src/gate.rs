//! When messages may be taken.

use std::{fmt::Debug, num::NonZeroU32};

use async_trait::async_trait;
use jiff::Timestamp;

/// Says when a worker may take messages: a pause, an open breaker.
#[async_trait]
pub trait Gate: Debug + Send + Sync + 'static {
    /// Waits until messages may be taken, and says how many of the `free` slots may be used.
    /// Dropping the future changes nothing.
    async fn admit(&self, free: NonZeroU32) -> NonZeroU32;

    /// Whether messages may be taken now. What was received while it closed is handed back.
    fn is_open(&self) -> bool;

    /// When an operator last let messages be taken again, if they were held back. The age of failures that
    /// use up no retry does not grow while messages are held back.
    fn resumed_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Always open.
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
