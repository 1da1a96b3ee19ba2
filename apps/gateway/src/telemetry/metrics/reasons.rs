//! Counts by reason.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::named::OTHER;

/// The maximum number of distinct pairs of name and reason; with "other" for each name this stays just below the 2,000
/// series that the SDK allows per instrument.
const PAIR_LIMIT: usize = 900;

/// The number of pairs of one instrument so far.
#[derive(Debug, Default)]
pub(super) struct ReasonPairs(AtomicUsize);

impl ReasonPairs {
    fn one_more(&self) -> bool {
        let below = |count| (count < PAIR_LIMIT).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).is_ok()
    }
}

/// Counts by reason.
#[derive(Debug, Default)]
pub(super) struct Reasons(Mutex<BTreeMap<String, u64>>);

impl Reasons {
    /// Counts a reason; beyond the limit new ones are counted as "other".
    pub(super) fn add(&self, reason: &str, count: u64, pairs: &ReasonPairs) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.contains_key(reason) || (reason != OTHER && pairs.one_more());
        let reason = if known { reason } else { OTHER };
        *counts.entry(reason.to_owned()).or_default() += count;
    }

    pub(super) fn each(&self, mut show: impl FnMut(&str, u64)) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().for_each(|(reason, count)| show(reason, *count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_beyond_the_limit_are_counted_together() {
        let (reasons, pairs) = (Reasons::default(), ReasonPairs::default());
        for number in 0..PAIR_LIMIT + 5 {
            reasons.add(&number.to_string(), 1, &pairs);
        }
        reasons.add("3", 1, &pairs);
        let (mut all, mut other) = (0, 0);
        reasons.each(|reason, count| {
            all += count;
            other += if reason == OTHER { count } else { 0 };
        });
        assert_eq!((all, other), (PAIR_LIMIT as u64 + 6, 5));
    }
}
