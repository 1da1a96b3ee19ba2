//! Settlements that wait to be stored: which are next, and which wait for a pause to end.

use std::time::Duration;

use bezoar_core::{Pauses, Settlement, TransportError};
use tokio::time::Instant;

use super::{BATCH_LIMIT, Kept, Settled, passes_by_itself};

/// Two sorts of settlements, completed messages and all others, so that the first do not wait behind
/// the second.
pub(super) const SORTS: usize = 2;
const OTHERS: usize = 1;
/// The maximum number of batches of one sort in flight.
const IN_FLIGHT_LIMIT: usize = 4;
/// How long a batch that is not full waits for the one before it, because large batches are cheaper.
const PATIENCE: Duration = Duration::from_millis(50);
/// The first and the longest pause before storing is tried again.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(5));
/// The longest pause that a transport can request.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

pub(super) struct Backlog {
    sorts: [Sort; SORTS],
    later: Vec<Later>,
    /// The total number of settlements, including those in flight.
    pub(super) count: usize,
    /// How many have failed to be stored.
    failed: usize,
    /// How many of these were refused for a reason that somebody must repair.
    pub(super) refused: usize,
    pauses: Pauses,
    troubled: bool,
}

#[derive(Default)]
struct Sort {
    waiting: Vec<Settled>,
    batches: usize,
    /// When a batch that is not full may start.
    not_before: Option<Instant>,
}

/// Settlements that are tried again after a pause.
struct Later {
    at: Instant,
    settled: Vec<Settled>,
    error: TransportError,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            sorts: Default::default(),
            later: Vec::new(),
            count: 0,
            failed: 0,
            refused: 0,
            pauses: PAUSES,
            troubled: false,
        }
    }
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    pub(super) fn stores_failures(&self) -> bool {
        self.sorts[OTHERS].batches > 0
    }

    pub(super) fn add(&mut self, settled: Settled) {
        self.count += 1;
        self.sorts[sort_of(&settled)].waiting.push(settled);
    }

    /// Removes a settlement that is stored or lost.
    pub(super) fn remove(&mut self, settled: &Settled) {
        self.count -= 1;
        self.failed -= usize::from(settled.kept != Kept::New);
        self.refused -= usize::from(settled.kept == Kept::Refused);
    }

    /// The next batch of a sort, if it should start now: the first immediately, others when they are full
    /// or the one before takes long.
    pub(super) fn next_batch(&mut self, sort: usize, now: Instant) -> Option<Vec<Settled>> {
        let Sort { waiting, batches, not_before } = &mut self.sorts[sort];
        let full = waiting.len() >= BATCH_LIMIT || not_before.is_none_or(|at| at <= now);
        let goes = !waiting.is_empty() && (*batches == 0 || (*batches < IN_FLIGHT_LIMIT && full));
        goes.then(|| match waiting.len() > BATCH_LIMIT {
            true => waiting.drain(..BATCH_LIMIT).collect(),
            false => std::mem::take(waiting),
        })
    }

    pub(super) fn put_first(&mut self, sort: usize, settled: Vec<Settled>) {
        self.sorts[sort].waiting.splice(0..0, settled);
    }

    pub(super) fn started(&mut self, sort: usize, now: Instant) {
        self.sorts[sort].batches += 1;
        self.sorts[sort].not_before = Some(now + PATIENCE);
    }

    pub(super) fn ended(&mut self, sort: usize) {
        self.sorts[sort].batches -= 1;
    }

    /// Keeps settlements that could not be stored, and returns the pause.
    pub(super) fn try_later(
        &mut self,
        mut settled: Vec<Settled>,
        error: TransportError,
        now: Instant,
    ) -> Duration {
        let kept = if passes_by_itself(&error) { Kept::Failed } else { Kept::Refused };
        for settled in &mut settled {
            self.failed += usize::from(settled.kept == Kept::New);
            self.refused -= usize::from(settled.kept == Kept::Refused);
            self.refused += usize::from(kept == Kept::Refused);
            settled.kept = kept;
        }
        let asked = error.kind.retry_after().unwrap_or_default().min(LONGEST_ASKED);
        let pause = self.pauses.lengthen().max(asked);
        self.troubled = true;
        self.later.push(Later { at: now + pause, settled, error });
        pause
    }

    /// Makes settlements whose pause has ended ready again.
    pub(super) fn retry(&mut self, now: Instant) {
        for Later { settled, .. } in self.later.extract_if(.., |later| later.at <= now) {
            for settled in settled {
                self.sorts[sort_of(&settled)].waiting.push(settled);
            }
        }
    }

    /// Removes and returns the settlements that wait for a pause to end.
    pub(super) fn take_later(&mut self) -> Vec<(Settled, TransportError)> {
        let mut taken = Vec::new();
        for Later { settled, error, .. } in std::mem::take(&mut self.later) {
            taken.extend(settled.into_iter().map(|settled| (settled, error.again())));
        }
        taken.iter().for_each(|(settled, _)| self.remove(settled));
        taken
    }

    /// Whether all settlements that had failed are stored now. Returns `true` once.
    pub(super) fn recovered(&mut self) -> bool {
        let recovered = self.failed == 0 && std::mem::take(&mut self.troubled);
        if self.failed == 0 {
            self.pauses.reset();
        } else {
            self.troubled = true;
        }
        recovered
    }

    /// When to check again if nothing else happens.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let joins = |sort: &Sort| {
            sort.not_before.filter(|at| *at > now && !sort.waiting.is_empty() && sort.batches > 0)
        };
        let later = self.later.iter().map(|later| later.at);
        later.chain(self.sorts.iter().filter_map(joins)).min()
    }
}

fn sort_of(settled: &Settled) -> usize {
    match settled.settlement {
        Settlement::Complete => 0,
        _ => OTHERS,
    }
}
