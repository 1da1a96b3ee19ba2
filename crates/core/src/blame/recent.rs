//! A map with a limit that forgets its oldest entries.

use std::collections::{HashMap, VecDeque};

/// Values by message. Beyond its limit the oldest entry is forgotten.
#[derive(Debug)]
pub(super) struct Recent<V> {
    limit: usize,
    entries: HashMap<u64, (u64, V)>,
    /// Keys in the order they were set; an entry that was set again has a newer stamp.
    order: VecDeque<(u64, u64)>,
    stamp: u64,
}

impl<V> Recent<V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, entries: HashMap::new(), order: VecDeque::new(), stamp: 0 }
    }

    pub(super) fn get(&self, key: u64) -> Option<&V> {
        self.entries.get(&key).map(|(_, value)| value)
    }

    pub(super) fn set(&mut self, key: u64, value: V) {
        self.stamp += 1;
        self.entries.insert(key, (self.stamp, value));
        self.order.push_back((key, self.stamp));
        // Drop outdated stamps too, so that `order` stays within twice the limit.
        while self.entries.len() > self.limit || self.order.len() > 2 * self.limit {
            self.forget_oldest();
        }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<V> {
        self.entries.remove(&key).map(|(_, value)| value)
    }

    fn forget_oldest(&mut self) {
        let Some((key, stamp)) = self.order.pop_front() else { return };
        if self.entries.get(&key).is_some_and(|(latest, _)| *latest == stamp) {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_forgotten_first() {
        let mut recent = Recent::new(2);
        recent.set(1, 'a');
        recent.set(2, 'b');
        recent.set(1, 'c');
        recent.set(3, 'd');
        assert_eq!((recent.get(1), recent.get(2), recent.get(3)), (Some(&'c'), None, Some(&'d')));
        assert_eq!((recent.remove(1), recent.get(1)), (Some('c'), None));
    }

    #[test]
    fn setting_an_entry_repeatedly_takes_no_memory() {
        let mut recent = Recent::new(2);
        for number in 0..1_000 {
            recent.set(1, number);
        }
        assert_eq!((recent.get(1), recent.entries.len()), (Some(&999), 1));
        assert!(recent.order.len() <= 4);
    }
}
