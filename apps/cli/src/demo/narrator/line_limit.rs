//! So many in each second.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// So many in each second.
#[derive(Debug)]
pub(super) struct LineLimit {
    each_second: u64,
    /// The second, and how many were taken in it.
    taken: AtomicU64,
}

impl LineLimit {
    pub(super) fn new(each_second: u64) -> Self {
        Self { each_second, taken: AtomicU64::new(0) }
    }

    /// Whether there is one more in this second.
    pub(super) fn take(&self, started: Instant) -> bool {
        let second = (started.elapsed().as_secs() + 1) << 16;
        let count = |taken: u64| {
            let this_second = if taken >> 16 == second >> 16 { taken } else { second };
            (this_second - second < self.each_second).then_some(this_second + 1)
        };
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}
