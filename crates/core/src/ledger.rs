//! What became of a message so far.

use std::time::Duration;

use jiff::Timestamp;

use crate::{Code, Detail, Failure, FailureKind, catalogue::OperationId, millis};

/// How many tries a ledger remembers: the first, and the latest of the others.
pub const HISTORY_LIMIT: usize = 32;

/// One failed run of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// How often the message had been replayed before.
    pub generation: u32,
    /// The attempt's number within its generation, from 1, as the policy counts.
    pub number: u32,
    /// The try within the attempt, from 1: above it only with immediate retries.
    pub tried: u32,
    /// When it started.
    pub at: Timestamp,
    /// How long it took, to the millisecond.
    pub duration: Duration,
    /// What sort of trouble.
    pub kind: FailureKind,
    /// A safe word for it.
    pub code: Code,
    /// What the error said.
    pub detail: Detail,
}

impl Attempt {
    /// A failed run; its place in the history is given when a ledger records it.
    pub fn failed(at: Timestamp, duration: Duration, failure: &Failure) -> Self {
        Self {
            generation: 0,
            number: 0,
            tried: 0,
            at: millis(at.as_millisecond()),
            duration: Duration::from_millis(
                u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            ),
            kind: failure.kind,
            code: failure.code.clone(),
            detail: failure.detail.clone(),
        }
    }
}

/// The attempts of a message: what was counted, and a bounded history.
///
/// The counters are of the current generation, which begins when a message is sent or replayed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// How often it was handed to a worker.
    pub acquired: u32,
    /// How many attempts failed.
    pub failed: u32,
    /// How often a worker handed it back without an attempt.
    pub released: u32,
    /// How often it was replayed.
    pub replayed: u32,
    /// The replay that sent it last, where the store knows.
    pub replay: Option<OperationId>,
    history: Vec<Attempt>,
}

impl Ledger {
    /// A ledger read back from where it was stored; at most [`HISTORY_LIMIT`] tries are kept.
    pub fn restored(
        acquired: u32,
        failed: u32,
        released: u32,
        replayed: u32,
        history: Vec<Attempt>,
    ) -> Self {
        let mut ledger = Self { acquired, failed, released, replayed, replay: None, history };
        ledger.shorten(HISTORY_LIMIT);
        ledger
    }

    /// The failed tries that are remembered, oldest first.
    pub fn history(&self) -> &[Attempt] {
        &self.history
    }

    /// The latest failed try.
    pub fn last(&self) -> Option<&Attempt> {
        self.history.last()
    }

    /// Acquisitions of which nothing is known: the worker died, or lost its lease.
    ///
    /// While the message is leased its present acquisition is one of them.
    pub fn without_outcome(&self) -> u32 {
        self.acquired.saturating_sub(self.failed).saturating_sub(self.released)
    }

    /// Whether somebody may have worked on the message without leaving a trace: it was handed out and then
    /// neither failed nor was it settled. A worker that stops at once hands back what it has begun.
    pub fn may_have_run(&self) -> bool {
        self.acquired > self.failed
    }

    /// Counts one more acquisition.
    pub fn acquire(&mut self) {
        self.acquired = self.acquired.saturating_add(1);
    }

    /// Counts a hand-back without an attempt.
    pub fn release(&mut self) {
        self.released = self.released.saturating_add(1);
    }

    /// Records the tries of one failed attempt; none means that no handler ran, and counts nothing.
    pub fn fail(&mut self, tries: Vec<Attempt>) {
        if tries.is_empty() {
            return;
        }
        self.failed = self.failed.saturating_add(1);
        for (mut attempt, tried) in tries.into_iter().zip(1..) {
            attempt.generation = self.replayed;
            attempt.number = self.failed;
            attempt.tried = tried;
            self.history.push(attempt);
        }
        self.shorten(HISTORY_LIMIT);
    }

    /// Begins a new generation: nothing counted, the history kept.
    pub fn replay(&mut self) {
        self.acquired = 0;
        self.failed = 0;
        self.released = 0;
        self.replayed = self.replayed.saturating_add(1);
    }

    /// Forgets all but `limit` tries: the first, and the latest of the others. The last one is always kept.
    pub fn shorten(&mut self, limit: usize) {
        let surplus = self.history.len().saturating_sub(limit.max(1));
        let kept_first = usize::from(limit > 1 && surplus > 0);
        self.history.drain(kept_first..kept_first + surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(second: i64) -> Attempt {
        let at = millis(second * 1_000);
        Attempt::failed(at, Duration::from_millis(3), &Failure::transient("boom"))
    }

    #[test]
    fn tries_of_one_attempt_share_its_number() {
        let mut ledger = Ledger::default();
        ledger.fail(vec![attempt(1), attempt(2)]);
        ledger.fail(vec![attempt(3)]);
        let places: Vec<_> = ledger.history().iter().map(|a| (a.number, a.tried)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (2, 1)]);
        assert_eq!(ledger.failed, 2);
        assert_eq!(ledger.last().unwrap().at, millis(3_000));
    }

    #[test]
    fn a_replay_counts_anew_and_keeps_the_history() {
        let mut ledger = Ledger::default();
        ledger.acquire();
        ledger.fail(vec![attempt(1)]);
        ledger.replay();
        assert_eq!((ledger.acquired, ledger.failed, ledger.replayed), (0, 0, 1));
        ledger.fail(vec![attempt(2)]);
        let places: Vec<_> = ledger.history().iter().map(|a| (a.generation, a.number)).collect();
        assert_eq!(places, [(0, 1), (1, 1)]);
    }

    #[test]
    fn failures_and_releases_are_outcomes_and_crashes_are_not() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.acquire();
        }
        ledger.fail(vec![attempt(1)]);
        ledger.release();
        assert_eq!(ledger.without_outcome(), 1);
        assert!(ledger.may_have_run());
    }

    #[test]
    fn a_long_history_keeps_the_first_and_the_latest() {
        let mut ledger = Ledger::default();
        for second in 0..100 {
            ledger.fail(vec![attempt(second)]);
        }
        assert_eq!(ledger.history().len(), HISTORY_LIMIT);
        assert_eq!(ledger.history()[0].number, 1);
        assert_eq!(ledger.last().unwrap().number, 100);
        ledger.shorten(0);
        assert_eq!(ledger.history().len(), 1);
        assert_eq!(ledger.last().unwrap().number, 100);
    }

    #[test]
    fn an_attempt_without_a_run_counts_nothing() {
        let mut ledger = Ledger::default();
        ledger.fail(vec![]);
        assert_eq!(ledger, Ledger::default());
    }
}
