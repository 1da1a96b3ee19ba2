//! The concurrency limit: halved when the endpoint asks to wait, raised by one as calls succeed.

use std::{num::NonZeroU32, time::Instant};

#[derive(Debug)]
pub(super) struct Limit {
    most: u32,
    current: u32,
    successes: u32,
    halved_at: Option<Instant>,
}

impl Limit {
    pub(super) fn new(most: NonZeroU32) -> Self {
        Self { most: most.get(), current: most.get(), successes: 0, halved_at: None }
    }

    pub(super) fn current(&self) -> u32 {
        self.current
    }

    /// How many more calls may start. Unlimited unless the endpoint asked for fewer, because the caller has its own
    /// limit.
    pub(super) fn free(&self, in_flight: u32) -> u32 {
        if self.current == self.most { u32::MAX } else { self.current.saturating_sub(in_flight) }
    }

    /// Calls that were in flight at the same time count once: those that started before the limit was halved do not
    /// halve it again.
    pub(super) fn throttled(&mut self, started: Instant, now: Instant) {
        if self.halved_at.is_none_or(|at| started >= at) {
            self.current = (self.current / 2).max(1);
            self.successes = 0;
            self.halved_at = Some(now);
        }
    }

    pub(super) fn succeeded(&mut self) {
        if self.current == self.most {
            return;
        }
        self.successes += 1;
        if self.successes >= self.current {
            self.current += 1;
            self.successes = 0;
        }
    }
}
