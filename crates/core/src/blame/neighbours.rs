//! The outcomes of other messages since a message last failed.

use super::{CallOutcome, recent::Recent};

/// How many messages are remembered with their last failure.
const REMEMBERED: usize = 16_384;

/// Counts outcomes, and remembers for each failed message the counts at that time.
#[derive(Debug)]
pub(super) struct Neighbours {
    counts: Counts,
    at_last_failure: Recent<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    done: u64,
    /// Ambiguous, or not sent at all.
    unclear: u64,
    all: u64,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { counts: Counts::default(), at_last_failure: Recent::new(REMEMBERED) }
    }
}

impl Neighbours {
    /// Counts an outcome of a message.
    pub(super) fn note(&mut self, key: u64, outcome: CallOutcome) {
        let unclear = matches!(outcome, CallOutcome::Ambiguous { .. } | CallOutcome::Unsent);
        self.counts.all += 1;
        self.counts.unclear += u64::from(unclear);
        if outcome == CallOutcome::Done {
            self.counts.done += 1;
            self.at_last_failure.remove(key);
        } else {
            self.at_last_failure.set(key, self.counts);
        }
    }

    /// Whether other messages are evidence against one that just failed: since its last failure at least one succeeded,
    /// and fewer than a quarter of them had an unclear outcome. With half instead of a quarter, an endpoint that sheds
    /// half of its load would make about every second message suspected. The counts do not include its own outcomes,
    /// because it had none since.
    pub(super) fn speak_against(&self, key: u64) -> bool {
        let Some(then) = self.at_last_failure.get(key) else { return false };
        let (done, unclear) = (self.counts.done - then.done, self.counts.unclear - then.unclear);
        done > 0 && unclear * 4 < self.counts.all - then.all
    }
}
