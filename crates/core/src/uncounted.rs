//! Decides what happens after a failure that uses up no retry: a pure function, like the retry policy.

use std::time::Duration;

use jiff::Timestamp;
use rand::{Rng, RngExt};

use crate::{
    Code, FailedTry, Failure, Invalid, Ledger, MAX_DELAY, MAX_RETRY_AFTER, Reason, Settlement,
    UncountedFailure,
};

/// How long and how often a message may fail through no fault of its own.
///
/// Waits double from 1 s, and a random part of each is used, so that messages that failed together are
/// not delivered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncountedPolicy {
    /// The first wait; it doubles with each failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// How many failures that are evidence against a message it may have before it is
    /// dead-lettered.
    pub max_suspected: u32,
    /// For how long a message may fail this way before it is dead-lettered.
    pub max_age: Duration,
}

impl Default for UncountedPolicy {
    /// Waits from 1 s to 15 s, up to 10 suspected failures, for up to three days.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(15),
            max_suspected: 10,
            max_age: Duration::from_secs(3 * 24 * 60 * 60),
        }
    }
}

/// What happens to a message after a failure that uses up no retry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UncountedDecision {
    /// The message is delivered again.
    Wait {
        /// The minimum time before the next delivery.
        after: Duration,
        /// The failure that the ledger records.
        failure: UncountedFailure,
    },
    /// The message is dead-lettered.
    DeadLetter(Reason),
}

impl UncountedDecision {
    /// How to settle the delivery. A dead letter keeps `last`, which says how the message failed.
    pub fn settlement(self, last: FailedTry) -> Settlement {
        match self {
            Self::Wait { after, failure } => Settlement::Uncounted { after, failure },
            Self::DeadLetter(reason) => Settlement::DeadLetter { reason, tries: vec![last] },
        }
    }
}

impl UncountedPolicy {
    /// Checks that the waits are valid.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a first wait above the longest, or a longest wait above [`MAX_DELAY`].
    pub fn check(&self) -> Result<(), Invalid> {
        if self.first > self.longest || self.longest > MAX_DELAY {
            return Err(Invalid::new("wait", "is longer than the longest wait"));
        }
        Ok(())
    }

    /// Decides what happens to a message with this ledger after this failure at `now`. `suspected` says
    /// whether the failure is evidence against the message. Time before `active_since` does not count
    /// towards the age, because no consumer tried then. The failure's `retry_after` lengthens the wait.
    pub fn decide(
        &self,
        ledger: &Ledger,
        failure: &Failure,
        suspected: bool,
        (now, active_since): (Timestamp, Timestamp),
        chance: &mut impl Rng,
    ) -> UncountedDecision {
        let before = ledger.uncounted.as_ref();
        let (waited, age) = waited_and_age(ledger, (now, active_since));
        let suspicions = before.map_or(0, |it| it.suspected) + u32::from(suspected);
        if suspected && suspicions >= self.max_suspected {
            return UncountedDecision::DeadLetter(Reason::suspected(suspicions));
        }
        if age > self.max_age {
            return UncountedDecision::DeadLetter(Reason::too_long(age));
        }
        let doublings = before.map_or(0, |it| it.count).min(31);
        let wait = self.first.saturating_mul(1 << doublings).min(self.longest);
        let asked = failure.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        let after = wait.mul_f64(chance.random_range(0.0..=1.0)).max(asked);
        let failure = UncountedFailure { at: now, code: failure.code.clone(), suspected, waited };
        UncountedDecision::Wait { after, failure }
    }

    /// What the ledger records when a handler snoozes its message for `after`; `None` if the message would then have
    /// waited for longer than [`max_age`](Self::max_age). The times mean the same as in [`decide`](Self::decide).
    pub fn snooze(
        &self,
        ledger: &Ledger,
        after: Duration,
        (now, active_since): (Timestamp, Timestamp),
    ) -> Option<UncountedFailure> {
        let (waited, age) = waited_and_age(ledger, (now, active_since));
        let within = age.saturating_add(after) <= self.max_age.min(MAX_DELAY);
        let code = Code::SNOOZED;
        within.then_some(UncountedFailure { at: now, code, suspected: false, waited })
    }
}

/// How much of the time since the last uncounted failure counts, and how long the message has waited in total.
fn waited_and_age(
    ledger: &Ledger,
    (now, active_since): (Timestamp, Timestamp),
) -> (Duration, Duration) {
    let before = ledger.uncounted.as_ref();
    let waited = before.map_or(Duration::ZERO, |it| since(it.last.max(active_since), now));
    (waited, before.map_or(Duration::ZERO, |it| it.waited) + waited)
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    let passed = now.duration_since(then);
    if passed.is_negative() { Duration::ZERO } else { passed.unsigned_abs() }
}

impl Reason {
    fn suspected(times: u32) -> Self {
        let text = format!("failed {times} times while other messages succeeded");
        Self::new(Self::SUSPECTED, text)
    }

    fn too_long(age: Duration) -> Self {
        let hours = age.as_secs() / 3_600;
        let text = match hours {
            0 => format!("undeliverable for {} s", age.as_secs()),
            1..48 => format!("undeliverable for {hours} h"),
            _ => format!("undeliverable for {} days", hours / 24),
        };
        Self::new(Self::UNDELIVERABLE, text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{UncountedSummary, millis};

    const SECOND: Duration = Duration::from_secs(1);

    fn ledger(count: u32, suspected: u32, waited: Duration) -> Ledger {
        let uncounted = UncountedSummary {
            count,
            suspected,
            first: millis(0),
            last: millis(100_000),
            waited,
            code: Code::TIMEOUT,
        };
        let mut ledger = Ledger::default();
        ledger.uncounted = Some(uncounted);
        ledger
    }

    fn failure() -> Failure {
        Failure::transient("gone").with_code(Code::from_static("http.503"))
    }

    fn decide(ledger: &Ledger, suspected: bool, now_ms: i64, since_ms: i64) -> UncountedDecision {
        let time = (millis(now_ms), millis(since_ms));
        let chance = &mut StdRng::seed_from_u64(1);
        UncountedPolicy::default().decide(ledger, &failure(), suspected, time, chance)
    }

    fn reason(decision: &UncountedDecision) -> String {
        match decision {
            UncountedDecision::Wait { .. } => "wait".to_owned(),
            UncountedDecision::DeadLetter(reason) => reason.to_string(),
        }
    }

    #[test]
    fn the_tenth_suspected_failure_dead_letters() {
        let suspected = |before| reason(&decide(&ledger(20, before, SECOND), true, 101_000, 0));
        assert_eq!(suspected(8), "wait");
        assert_eq!(suspected(9), "failed 10 times while other messages succeeded");
        assert_eq!(reason(&decide(&ledger(20, 9, SECOND), false, 101_000, 0)), "wait");
    }

    #[test]
    fn a_message_waits_for_three_days_of_trying_and_not_of_pausing() {
        const DAY_MS: i64 = 86_400_000;
        let three_days = Duration::from_secs(3 * 86_400);
        let old = ledger(5, 0, three_days - SECOND);
        assert_eq!(reason(&decide(&old, false, 101_000, 0)), "wait");
        assert_eq!(reason(&decide(&old, false, 102_000, 0)), "undeliverable for 3 days");
        let paused_since = decide(&old, false, 9 * DAY_MS, 9 * DAY_MS - 500);
        assert_eq!(reason(&paused_since), "wait", "the route was paused meanwhile");
        let new = Ledger::default();
        assert_eq!(reason(&decide(&new, false, 9 * DAY_MS, 0)), "wait", "its age starts now");
    }

    #[test]
    fn a_snooze_is_remembered_and_bounded_by_the_age() {
        let policy = UncountedPolicy::default();
        let snooze =
            |ledger: &Ledger, after| policy.snooze(ledger, after, (millis(101_000), millis(0)));
        let remembered = snooze(&ledger(1, 0, SECOND), 60 * SECOND).unwrap();
        assert_eq!((remembered.waited, remembered.code), (SECOND, Code::SNOOZED));
        let three_days = Duration::from_secs(3 * 86_400);
        assert!(snooze(&Ledger::default(), three_days).is_some());
        assert!(snooze(&Ledger::default(), three_days + SECOND).is_none());
        assert!(snooze(&ledger(1, 0, SECOND), three_days - 2 * SECOND).is_some());
        assert!(snooze(&ledger(1, 0, SECOND), three_days - SECOND).is_none());
        assert!(snooze(&Ledger::default(), Duration::MAX).is_none());
    }

    #[test]
    fn a_failure_is_added_to_the_summary() {
        let UncountedDecision::Wait { failure, .. } =
            decide(&ledger(1, 0, SECOND), true, 103_000, 0)
        else {
            panic!("it waits");
        };
        assert_eq!((failure.at, failure.waited), (millis(103_000), 3 * SECOND));
        assert_eq!((failure.code.as_str(), failure.suspected), ("http.503", true));
    }

    proptest! {
        #[test]
        fn waits_double_to_a_bound_and_respect_retry_after(
            count in 0..100_u32, asked in prop::option::of(0..100_u64), seed: u64,
        ) {
            let asked = asked.map(Duration::from_secs);
            let mut failure = failure();
            failure.retry_after = asked;
            let time = (millis(100_001), millis(0));
            let decision = UncountedPolicy::default()
                .decide(&ledger(count, 0, SECOND), &failure, false, time, &mut StdRng::seed_from_u64(seed));
            let UncountedDecision::Wait { after, .. } = decision else { panic!("it waits") };
            let most = SECOND.saturating_mul(1 << count.min(20)).min(15 * SECOND);
            let asked = asked.unwrap_or_default();
            prop_assert!(after >= asked && after <= most.max(asked));
        }
    }
}
