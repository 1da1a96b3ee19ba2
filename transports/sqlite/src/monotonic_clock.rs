//! A clock that never goes back.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bezoar_core::{Clock, millis, to_millis};
use jiff::Timestamp;

/// Follows another clock. When that clock is set back, this one continues from its last reading at the same
/// pace, until the other has caught up. So ready messages stay ready, and no later message overtakes them.
#[derive(Debug)]
pub(crate) struct MonotonicClock {
    inner: Arc<dyn Clock>,
    shown: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    latest: i64,
    /// How far this clock is ahead of the other, in milliseconds.
    ahead: i64,
}

impl MonotonicClock {
    /// A clock that starts at `earliest` or later.
    pub(crate) fn new(inner: Arc<dyn Clock>, earliest: Timestamp) -> Self {
        let clock = Self {
            inner,
            shown: Mutex::new(Reading { latest: earliest.as_millisecond(), ahead: 0 }),
        };
        clock.now();
        clock
    }

    /// How far this clock is ahead of the one that it follows, in milliseconds.
    pub(crate) fn ahead(&self) -> i64 {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).ahead
    }
}

impl Clock for MonotonicClock {
    fn steady(&self) -> Duration {
        self.inner.steady()
    }

    fn now(&self) -> Timestamp {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = shown.at(self.inner.now().as_millisecond());
        millis(shown.latest)
    }
}

/// Detects that the clock was set forward: it moved by more than the time that passed.
#[derive(Debug, Default)]
pub(crate) struct ClockJumpDetector(Option<(Timestamp, Duration)>);

impl ClockJumpDetector {
    /// Small corrections are ignored.
    const TOLERANCE: Duration = Duration::from_secs(1);

    /// What the clock should show, if it was set forward since the last reading.
    pub(crate) fn jumped(&self, now: Timestamp, steady: Duration) -> Option<Timestamp> {
        let (then, before) = self.0?;
        let passed = to_millis(steady.saturating_sub(before));
        let expected = millis(then.as_millisecond().saturating_add(passed));
        let ahead = now.as_millisecond().saturating_sub(expected.as_millisecond());
        (ahead > to_millis(Self::TOLERANCE)).then_some(expected)
    }

    /// Records a reading of the clock.
    pub(crate) fn note(&mut self, now: Timestamp, steady: Duration) {
        self.0 = Some((now, steady));
    }
}

impl Reading {
    /// The reading when the other clock shows `told`.
    fn at(&self, told: i64) -> Self {
        if told >= self.latest {
            return Self { latest: told, ahead: 0 };
        }
        let latest = told.saturating_add(self.ahead).max(self.latest);
        Self { latest, ahead: latest.saturating_sub(told) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the reading for each time that the other clock shows, starting at 100.
    fn check(told: &[i64], expected: &[i64]) {
        let mut shown = Reading { latest: 100, ahead: 0 };
        let mut all = Vec::new();
        for &told in told {
            shown = shown.at(told);
            all.push(shown.latest);
        }
        assert_eq!(all, expected, "{told:?}");
    }

    #[test]
    fn a_step_forward_is_more_than_the_time_that_has_passed() {
        let (mut detector, second) = (ClockJumpDetector::default(), Duration::from_secs(1));
        let mut check = |now_ms, steady: Duration, expected: Option<i64>| {
            assert_eq!(detector.jumped(millis(now_ms), steady), expected.map(millis));
            detector.note(millis(now_ms), steady);
        };
        check(1_000, second, None);
        check(2_000, 2 * second, None);
        check(3_900, 3 * second, None); // a small correction
        check(60_000, 4 * second, Some(4_900));
        check(61_000, 5 * second, None);
        check(61_000, 600 * second, None); // set back, or stopped
    }

    #[test]
    fn it_follows_and_never_goes_back() {
        check(&[100, 101, 105], &[100, 101, 105]);
        check(&[150, 50, 51, 60], &[150, 150, 151, 160]); // set back by 100
        check(&[150, 50, 60, 20, 30], &[150, 150, 160, 160, 170]); // set back twice
        check(&[150, 50, 160, 170], &[150, 150, 160, 170]); // set back, then corrected
        check(&[30, 40], &[100, 110]); // set back before the start
        check(&[i64::MIN, i64::MAX, 0], &[100, i64::MAX, i64::MAX]);
    }
}
