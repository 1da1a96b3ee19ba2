//! Which lines were not accepted, by reason.

use std::collections::BTreeMap;

use crate::humanize::{count, plural};

/// How many reasons are distinguished, and how many line ranges are listed for each.
const REASONS: usize = 20;
const RANGES: usize = 20;
const OTHER: &str = "for other reasons";

/// Lines by reason, in bounded memory.
#[derive(Debug, Default)]
pub(super) struct FailedLines {
    by_reason: BTreeMap<String, LineRanges>,
    count: u64,
}

#[derive(Debug, Default)]
struct LineRanges {
    ranges: Vec<(u64, u64)>,
    count: u64,
}

impl FailedLines {
    /// Adds a line; lines must come in order.
    pub(super) fn add(&mut self, line: u64, reason: &str) {
        self.count += 1;
        let is_known = self.by_reason.contains_key(reason) || self.by_reason.len() < REASONS;
        let reason = if is_known { reason } else { OTHER };
        self.by_reason.entry(reason.to_owned()).or_default().add(line);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// One line of text per reason.
    pub(super) fn lines(&self) -> Vec<String> {
        self.by_reason
            .iter()
            .map(|(reason, places)| format!("{}: {reason}", places.words()))
            .collect()
    }
}

impl LineRanges {
    fn add(&mut self, line: u64) {
        self.count += 1;
        let has_room = self.ranges.len() < RANGES;
        match self.ranges.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ if has_room => self.ranges.push((line, line)),
            _ => {}
        }
    }

    fn words(&self) -> String {
        let range = |(first, last): &(u64, u64)| match first == last {
            true => count(*first),
            false => format!("{}–{}", count(*first), count(*last)),
        };
        let told: u64 = self.ranges.iter().map(|(first, last)| last - first + 1).sum();
        let ranges: Vec<_> = self.ranges.iter().map(range).collect();
        let noun = if self.count == 1 { "line" } else { "lines" };
        match self.count - told {
            0 => format!("{noun} {}", ranges.join(", ")),
            more => format!("{noun} {} and {}", ranges.join(", "), plural(more, "other")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_listed_in_ranges() {
        let mut failures = FailedLines::default();
        [3, 17, 18, 19, 1_204].iter().for_each(|line| failures.add(*line, "too large"));
        failures.add(20, "busy");
        assert_eq!(failures.lines(), ["line 20: busy", "lines 3, 17–19, 1,204: too large"]);
        assert_eq!(failures.count(), 6);
    }

    #[test]
    fn a_million_failures_take_bounded_memory() {
        let mut failures = FailedLines::default();
        (0..1_000_000).for_each(|line| failures.add(line * 2, &format!("reason {}", line % 1_000)));
        let lines = failures.lines();
        assert_eq!((lines.len(), failures.count()), (REASONS + 1, 1_000_000));
        assert!(lines[0].ends_with("and 979,980 others: for other reasons"), "{}", lines[0]);
    }
}
