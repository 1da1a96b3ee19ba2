//! A limit of lines per second.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// A limit of lines per second.
#[derive(Debug)]
pub(super) struct LineLimit {
    each_second: u64,
    /// The current second and the number of lines in it, packed.
    taken: AtomicU64,
}

impl LineLimit {
    pub(super) fn new(each_second: u64) -> Self {
        Self { each_second, taken: AtomicU64::new(0) }
    }

    /// Takes one line of this second's limit; `false` if it is used up.
    pub(super) fn take(&self, started: Instant) -> bool {
        let second = (started.elapsed().as_secs() + 1) << 16;
        let count = |taken: u64| {
            let this_second = if taken >> 16 == second >> 16 { taken } else { second };
            (this_second - second < self.each_second).then_some(this_second + 1)
        };
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}
