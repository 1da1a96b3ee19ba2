//! The history of a message: attempts, failures, replays.

use std::time::Duration;

use jiff::Timestamp;

use crate::{Code, Detail, Failure, FailureKind, catalogue::OperationId, millis};

/// How many tries a ledger remembers: the first, and the latest of the others.
pub const HISTORY_LIMIT: usize = 32;

/// One run of a handler that failed: the whole attempt, or one of its immediate retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTry {
    /// How often the message had been replayed before this try.
    pub generation: u32,
    /// The number of its attempt, as the policy counts: from 1 in each generation.
    pub attempt: u32,
    /// Its number within the attempt, from 1. Only immediate retries raise it.
    pub try_number: u32,
    /// When the handler started.
    pub started_at: Timestamp,
    /// How long the handler ran, to the millisecond.
    pub duration: Duration,
    /// The kind of failure, which decides whether to retry.
    pub kind: FailureKind,
    /// A short code for the error that is safe to log.
    pub code: Code,
    /// The error's text. It may contain personal data and is not printed.
    pub detail: Detail,
}

impl FailedTry {
    /// A failed run. The ledger that records it fills in its numbers.
    pub fn new(started_at: Timestamp, duration: Duration, failure: &Failure) -> Self {
        Self {
            generation: 0,
            attempt: 0,
            try_number: 0,
            started_at: millis(started_at.as_millisecond()),
            duration: whole_millis(duration),
            kind: failure.kind,
            code: failure.code.clone(),
            detail: failure.detail.clone(),
        }
    }

    /// When the handler failed: the end of the try, to the millisecond.
    pub fn failed_at(&self) -> Timestamp {
        self.started_at.checked_add(self.duration).unwrap_or(Timestamp::MAX)
    }
}

/// The attempts of a message: counters and a bounded history.
///
/// The counters cover the current generation, which begins when the message is sent or replayed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// How often it was delivered to a worker.
    pub acquired: u32,
    /// How many attempts failed.
    pub failed: u32,
    /// How many acquisitions ended without a failed attempt: released, failed without being counted, or
    /// cleared by a later outcome.
    pub released: u32,
    /// How often it was replayed.
    pub replayed: u32,
    /// The replay that last sent it, if the store knows.
    pub replay: Option<OperationId>,
    /// Failures of this generation that used up no retry.
    pub uncounted: Option<UncountedSummary>,
    history: Vec<FailedTry>,
}

/// A failure that uses up no retry, because it is not known to be the message's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncountedFailure {
    /// When it happened.
    pub at: Timestamp,
    /// A code that is safe to log.
    pub code: Code,
    /// Whether it is evidence against the message, because other messages succeed.
    pub suspected: bool,
    /// How much of the time since the previous failure counts towards the age limit. Time in which the route was
    /// paused or its process was not running does not count, because no consumer tried.
    pub waited: Duration,
}

/// A summary of the failures that used up no retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncountedSummary {
    /// The number of failures.
    pub count: u32,
    /// How many of them were evidence against the message.
    pub suspected: u32,
    /// When the first failure happened.
    pub first: Timestamp,
    /// When the latest failure happened.
    pub last: Timestamp,
    /// For how long the message has failed this way; compared with the age limit.
    pub waited: Duration,
    /// The code of the latest failure.
    pub code: Code,
}

impl UncountedSummary {
    /// The summary with one more failure.
    fn plus(before: Option<Self>, failure: &UncountedFailure) -> Self {
        let (count, suspected, first, waited) = match before {
            Some(it) => {
                let waited = whole_millis(it.waited + whole_millis(failure.waited));
                (it.count, it.suspected, it.first, waited)
            }
            None => (0, 0, failure.at, Duration::ZERO),
        };
        Self {
            count: count.saturating_add(1),
            suspected: suspected.saturating_add(failure.suspected.into()),
            first,
            last: failure.at,
            waited,
            code: failure.code.clone(),
        }
    }
}

fn whole_millis(duration: Duration) -> Duration {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX); // the maximum that a store keeps
    Duration::from_millis(millis.unsigned_abs())
}

impl Ledger {
    /// A ledger read back from where it was stored; at most [`HISTORY_LIMIT`] tries are kept.
    pub fn restored(
        acquired: u32,
        failed: u32,
        released: u32,
        replayed: u32,
        history: Vec<FailedTry>,
    ) -> Self {
        let mut ledger =
            Self { acquired, failed, released, replayed, replay: None, uncounted: None, history };
        ledger.shorten(HISTORY_LIMIT);
        ledger
    }

    /// The failed tries that are remembered, oldest first.
    pub fn history(&self) -> &[FailedTry] {
        &self.history
    }

    /// The latest failed try.
    pub fn last(&self) -> Option<&FailedTry> {
        self.history.last()
    }

    /// Deliveries without an outcome: the worker died, or lost its lease.
    ///
    /// While the message is leased, its current delivery is one of them.
    pub fn without_outcome(&self) -> u32 {
        self.acquired.saturating_sub(self.failed).saturating_sub(self.released)
    }

    /// Whether a handler may have run on the message without leaving an outcome: it has more deliveries
    /// than failed attempts. Releases count too, because a worker that stops immediately releases messages
    /// whose handlers have started.
    pub fn may_have_run(&self) -> bool {
        self.acquired > self.failed
    }

    /// Counts one more acquisition.
    pub fn acquire(&mut self) {
        self.acquired = self.acquired.saturating_add(1);
    }

    /// Counts a release without an attempt.
    pub fn release(&mut self) {
        self.released = self.released.saturating_add(1);
    }

    /// Records the tries of one failed attempt. Without tries no handler ran, and nothing is
    /// counted.
    ///
    /// A message with an outcome is no longer suspected of crashing its process: earlier acquisitions
    /// without an outcome are cleared.
    pub fn fail(&mut self, tries: Vec<FailedTry>) {
        if tries.is_empty() {
            return;
        }
        self.failed = self.failed.saturating_add(1);
        self.clear_acquisitions();
        for (mut failed, try_number) in tries.into_iter().zip(1..) {
            failed.generation = self.replayed;
            failed.attempt = self.failed;
            failed.try_number = try_number;
            self.history.push(failed);
        }
        self.shorten(HISTORY_LIMIT);
    }

    /// Records a failure that uses up no retry. This is an outcome: earlier acquisitions without an
    /// outcome are cleared.
    pub fn fail_uncounted(&mut self, failure: &UncountedFailure) {
        self.uncounted = Some(UncountedSummary::plus(self.uncounted.take(), failure));
        self.clear_acquisitions();
    }

    fn clear_acquisitions(&mut self) {
        self.released = self.released.saturating_add(self.without_outcome());
    }

    /// When the message last failed in this generation, counted or not.
    pub fn last_failure_at(&self) -> Option<Timestamp> {
        let counted = self.last().filter(|last| last.generation == self.replayed);
        let uncounted = self.uncounted.as_ref().map(|it| it.last);
        counted.map(FailedTry::failed_at).max(uncounted)
    }

    /// Begins a new generation: resets the counters and keeps the history.
    pub fn replay(&mut self) {
        self.acquired = 0;
        self.failed = 0;
        self.released = 0;
        self.uncounted = None;
        self.replayed = self.replayed.saturating_add(1);
    }

    /// Makes a ledger small enough to be stored or sent: drops tries, half of them at a time, then shortens
    /// the detail of the last one, then drops that try too. The counters are always kept. A retry or a dead
    /// letter therefore never fails because of its size.
    ///
    /// `fits` says whether the shortened ledger is small enough. Returns whether it is at the end.
    pub fn fit(&mut self, fits: impl Fn(&Self) -> bool) -> bool {
        while !fits(self) {
            match self.history.as_mut_slice() {
                [] => return false,
                [last] if last.detail.reveal().is_empty() => self.history.clear(),
                [last] => last.detail = half(&last.detail),
                tries => {
                    let kept = tries.len() / 2;
                    self.shorten(kept);
                }
            }
        }
        true
    }

    /// Drops all but `limit` tries: keeps the first, and the latest of the others. The last one is always
    /// kept.
    pub fn shorten(&mut self, limit: usize) {
        let surplus = self.history.len().saturating_sub(limit.max(1));
        let kept_first = usize::from(limit > 1 && surplus > 0);
        self.history.drain(kept_first..kept_first + surplus);
    }
}

/// The first half of a detail.
fn half(detail: &Detail) -> Detail {
    let text = detail.reveal();
    Detail::truncated(text[..text.floor_char_boundary(text.len() / 2)].to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Stands in for the size that a transport writes.
    fn size(ledger: &Ledger) -> usize {
        ledger.history().iter().map(|it| 20 + it.detail.reveal().len()).sum()
    }

    proptest! {
        #[test]
        fn a_ledger_is_made_to_fit_by_history_then_detail(
            details in prop::collection::vec("[a-zß🏥]{0,40}", 0..40), limit in 0..3_000_usize,
        ) {
            let tries = details.iter().map(|detail| {
                FailedTry::new(millis(0), Duration::ZERO, &Failure::transient(detail.clone()))
            });
            let mut ledger = Ledger::restored(7, 3, 1, 2, tries.collect());
            let before = ledger.clone();
            prop_assert!(ledger.fit(|it| size(it) <= limit), "an empty history must fit");
            prop_assert!(size(&ledger) <= limit);
            prop_assert_eq!(
                (ledger.acquired, ledger.failed, ledger.released, ledger.replayed), (7, 3, 1, 2)
            );
            if size(&before) <= limit {
                prop_assert_eq!(&ledger, &before, "a ledger that fits must not change");
            } else if let Some(last) = ledger.last() {
                let whole = before.last().unwrap().detail.reveal();
                prop_assert!(whole.starts_with(last.detail.reveal()), "the latest try stays");
                let all_whole = ledger.history().len() == 1 || last.detail.reveal() == whole;
                prop_assert!(all_whole, "a detail was shortened while there was history to drop");
            }
        }
    }

    #[test]
    fn fit_reports_a_ledger_that_can_never_fit() {
        let mut ledger = Ledger::default();
        ledger.fail(vec![FailedTry::new(millis(0), Duration::ZERO, &Failure::transient("x"))]);
        assert!(!ledger.fit(|_| false));
        assert_eq!((ledger.history().len(), ledger.failed), (0, 1));
    }

    fn failed_try(second: i64) -> FailedTry {
        let at = millis(second * 1_000);
        FailedTry::new(at, Duration::from_millis(3), &Failure::transient("boom"))
    }

    #[test]
    fn tries_of_one_attempt_share_its_number() {
        let mut ledger = Ledger::default();
        ledger.fail(vec![failed_try(1), failed_try(2)]);
        ledger.fail(vec![failed_try(3)]);
        let places: Vec<_> =
            ledger.history().iter().map(|it| (it.attempt, it.try_number)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (2, 1)]);
        assert_eq!(ledger.failed, 2);
        assert_eq!(ledger.last().unwrap().started_at, millis(3_000));
    }

    #[test]
    fn the_last_failure_is_when_the_handler_failed_and_not_when_it_started() {
        let took = |seconds| {
            let duration = Duration::from_secs(seconds);
            FailedTry::new(millis(1_000), duration, &Failure::transient("boom"))
        };
        let mut ledger = Ledger::default();
        ledger.fail(vec![took(90)]);
        assert_eq!(ledger.last_failure_at(), Some(millis(91_000)));
        assert_eq!(took(u64::MAX).failed_at(), Timestamp::MAX, "an overlong duration saturates");
    }

    #[test]
    fn a_replay_counts_anew_and_keeps_the_history() {
        let mut ledger = Ledger::default();
        ledger.acquire();
        ledger.fail(vec![failed_try(1)]);
        ledger.replay();
        assert_eq!((ledger.acquired, ledger.failed, ledger.replayed), (0, 0, 1));
        ledger.fail(vec![failed_try(2)]);
        let places: Vec<_> =
            ledger.history().iter().map(|it| (it.generation, it.attempt)).collect();
        assert_eq!(places, [(0, 1), (1, 1)]);
    }

    #[test]
    fn failures_and_releases_are_outcomes_and_crashes_are_not() {
        let mut ledger = Ledger::default();
        ledger.acquire();
        ledger.fail(vec![failed_try(1)]);
        ledger.acquire();
        ledger.release();
        ledger.acquire();
        assert_eq!(ledger.without_outcome(), 1);
        assert!(ledger.may_have_run());
    }

    fn uncounted(second: i64, suspected: bool) -> UncountedFailure {
        let (code, waited) = (Code::from_static("http.503"), Duration::from_secs(2));
        UncountedFailure { at: millis(second * 1_000), code, suspected, waited }
    }

    #[test]
    fn uncounted_failures_are_one_summary_and_use_up_nothing() {
        let mut ledger = Ledger::default();
        for (second, suspected) in [(1, false), (3, true), (5, true)] {
            ledger.acquire();
            ledger.fail_uncounted(&uncounted(second, suspected));
        }
        assert_eq!((ledger.failed, ledger.without_outcome(), ledger.history().len()), (0, 0, 0));
        let sum = ledger.uncounted.clone().unwrap();
        assert_eq!((sum.count, sum.suspected), (3, 2));
        assert_eq!((sum.first, sum.last), (millis(1_000), millis(5_000)));
        assert_eq!(sum.waited, Duration::from_secs(4), "nothing is added for the first failure");
        assert_eq!(ledger.last_failure_at(), Some(millis(5_000)));
        ledger.replay();
        assert_eq!((ledger.uncounted.clone(), ledger.last_failure_at()), (None, None));
    }

    #[test]
    fn an_outcome_clears_earlier_acquisitions_without_one() {
        let lost_twice = || Ledger::restored(3, 0, 0, 0, vec![]);
        let mut ledger = lost_twice();
        ledger.release();
        assert_eq!(ledger.without_outcome(), 2, "a release is not an outcome");
        let mut ledger = lost_twice();
        ledger.fail(vec![failed_try(1)]);
        assert_eq!((ledger.without_outcome(), ledger.acquired), (0, 3));
        let mut ledger = lost_twice();
        ledger.fail_uncounted(&uncounted(1, false));
        assert_eq!(ledger.without_outcome(), 0);
    }

    #[test]
    fn a_long_history_keeps_the_first_and_the_latest() {
        let mut ledger = Ledger::default();
        for second in 0..100 {
            ledger.fail(vec![failed_try(second)]);
        }
        assert_eq!(ledger.history().len(), HISTORY_LIMIT);
        assert_eq!(ledger.history()[0].attempt, 1);
        assert_eq!(ledger.last().unwrap().attempt, 100);
        ledger.shorten(0);
        assert_eq!(ledger.history().len(), 1);
        assert_eq!(ledger.last().unwrap().attempt, 100);
    }

    #[test]
    fn an_attempt_without_a_run_counts_nothing() {
        let mut ledger = Ledger::default();
        ledger.fail(vec![]);
        assert_eq!(ledger, Ledger::default());
    }
}
