//! The only place that reads the time.

use std::{
    fmt::Debug,
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;

/// Tells the time, to the millisecond.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The current time, cut to milliseconds, so that a stored time compares equal to the one in
    /// memory.
    fn now(&self) -> Timestamp;

    /// The time that has passed since some fixed moment, unaffected by changes of the system time. A
    /// clock that nobody adjusts can use this default.
    fn steady(&self) -> Duration {
        Duration::from_millis(self.now().as_millisecond().max(0).unsigned_abs())
    }
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn now(&self) -> Timestamp {
        millis(Timestamp::now().as_millisecond())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn steady(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// A clock for tests that stands still until it is advanced.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_millisecond()))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(to_millis(by), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// Starts in September 2001, at a round number of seconds.
    fn default() -> Self {
        Self::new(millis(1_000_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        millis(self.0.load(Ordering::SeqCst))
    }
}

/// The time `millis` after the epoch, clamped to the range of a timestamp.
pub fn millis(millis: i64) -> Timestamp {
    let (min, max) = (Timestamp::MIN.as_second() * 1_000, Timestamp::MAX.as_second() * 1_000);
    Timestamp::from_millisecond(millis.clamp(min, max)).expect("clamped to the representable range")
}

/// Whole milliseconds, rounded up, so that a delay is never shortened.
pub fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_advanced() {
        let clock = ManualClock::default();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.now().as_millisecond() - before.as_millisecond(), 5);
    }

    #[test]
    fn durations_round_up_and_saturate() {
        assert_eq!(to_millis(Duration::from_nanos(1)), 1);
        assert_eq!(to_millis(Duration::from_millis(7)), 7);
        assert_eq!(to_millis(Duration::MAX), i64::MAX);
        assert_eq!(millis(i64::MAX).as_second(), Timestamp::MAX.as_second());
    }
}
