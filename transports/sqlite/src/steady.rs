//! A clock that never goes back.

use std::sync::{Arc, Mutex, PoisonError};

use bezoar_core::{Clock, millis};
use jiff::Timestamp;

/// Follows another clock. When that is set back, it goes on from where it was and at the same pace, ahead
/// of the other, until the other has caught up: what was ready stays ready, and nothing overtakes it.
#[derive(Debug)]
pub(crate) struct Steady {
    inner: Arc<dyn Clock>,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    latest: i64,
    /// How far this clock is ahead of the other.
    ahead: i64,
}

impl Steady {
    /// A clock that shows `earliest` or later.
    pub(crate) fn new(inner: Arc<dyn Clock>, earliest: Timestamp) -> Self {
        let steady = Self {
            inner,
            shown: Mutex::new(Shown { latest: earliest.as_millisecond(), ahead: 0 }),
        };
        steady.now();
        steady
    }

    /// How far it is ahead of the clock that it follows, in milliseconds.
    pub(crate) fn ahead(&self) -> i64 {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).ahead
    }
}

impl Clock for Steady {
    fn now(&self) -> Timestamp {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = shown.at(self.inner.now().as_millisecond());
        millis(shown.latest)
    }
}

impl Shown {
    /// What is shown when the other clock shows `told`.
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

    /// What is shown after each time that was told, having begun at 100.
    fn check(told: &[i64], expected: &[i64]) {
        let mut shown = Shown { latest: 100, ahead: 0 };
        let mut all = Vec::new();
        for &told in told {
            shown = shown.at(told);
            all.push(shown.latest);
        }
        assert_eq!(all, expected, "{told:?}");
    }

    #[test]
    fn it_follows_and_never_goes_back() {
        check(&[100, 101, 105], &[100, 101, 105]);
        check(&[150, 50, 51, 60], &[150, 150, 151, 160]); // set back by 100
        check(&[150, 50, 60, 20, 30], &[150, 150, 160, 160, 170]); // and again
        check(&[150, 50, 160, 170], &[150, 150, 160, 170]); // and set right
        check(&[30, 40], &[100, 110]); // set back before it began
        check(&[i64::MIN, i64::MAX, 0], &[100, i64::MAX, i64::MAX]);
    }
}
