//! What every program does that fails each attempt: the same retries, the same delay.

use std::time::Duration;

/// How often each message is tried again.
pub(crate) const RETRIES: u32 = 2;
/// How long it waits before each.
pub(crate) const DELAY: Duration = Duration::from_millis(100);
