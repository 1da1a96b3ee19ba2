//! Series by name, with a limit.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

/// The maximum number of distinct names; each one costs the monitoring system.
pub(super) const NAME_LIMIT: usize = 1_000;
/// The shared name of all others.
pub(super) const OTHER: &str = "other";

/// A series with a name as its label.
pub(super) trait Named {
    fn new(name: &str) -> Self;
}

/// Series by name. Names come from the configuration; beyond the limit they share one series.
#[derive(Debug)]
pub(super) struct ByName<T> {
    known: RwLock<BTreeMap<String, Arc<T>>>,
    other: OnceLock<Arc<T>>,
}

impl<T: Named> ByName<T> {
    /// The series of `name`.
    pub(super) fn at(&self, name: &str) -> Arc<T> {
        if let Some(series) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return series.clone();
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= NAME_LIMIT && !known.contains_key(name) {
            drop(known);
            return self.other();
        }
        known.entry(name.to_owned()).or_insert_with(|| Arc::new(T::new(name))).clone()
    }

    /// The shared series of all other names.
    pub(super) fn other(&self) -> Arc<T> {
        self.other.get_or_init(|| Arc::new(T::new(OTHER))).clone()
    }

    /// Calls `show` with each series, and whether a handle to it exists.
    pub(super) fn each(&self, mut show: impl FnMut(&T, bool)) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for series in known.values() {
            show(series, Arc::strong_count(series) > 1);
        }
        if let Some(other) = self.other.get() {
            show(other, false);
        }
    }
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self { known: RwLock::default(), other: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for String {
        fn new(name: &str) -> Self {
            name.to_owned()
        }
    }

    #[test]
    fn names_beyond_the_limit_share_one_series() {
        let names = ByName::<String>::default();
        for number in 0..NAME_LIMIT {
            assert_eq!(*names.at(&number.to_string()), number.to_string());
        }
        assert_eq!(*names.at("one more"), OTHER);
        assert_eq!(*names.at("7"), "7");
        let mut seen = 0;
        names.each(|_, _| seen += 1);
        assert_eq!(seen, NAME_LIMIT + 1);
    }

    #[test]
    fn a_series_is_held_as_long_as_a_handle_exists() {
        let names = ByName::<String>::default();
        let handle = names.at("results");
        names.each(|_, held| assert!(held));
        drop(handle);
        names.each(|_, held| assert!(!held));
    }
}
