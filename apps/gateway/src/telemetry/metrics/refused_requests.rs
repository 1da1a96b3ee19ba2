//! Counts of refused requests.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Requests that were refused, by status and reason. Both are ours, so that there are only a few.
#[derive(Debug, Default)]
pub(super) struct RefusedRequests(Mutex<BTreeMap<(u16, &'static str), u64>>);

impl RefusedRequests {
    pub(super) fn add(&self, status: u16, reason: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((status, reason)).or_default() += 1;
    }

    pub(super) fn each(&self, mut show: impl FnMut(u16, &'static str, u64)) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().for_each(|((status, reason), count)| show(*status, reason, *count));
    }
}
