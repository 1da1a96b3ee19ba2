//! How many dead letters a cause got in this hour and in the last.

const HOUR_MILLIS: i64 = 60 * 60 * 1_000;

/// Counts of two neighbouring hours. Stored as they are; what they mean depends on the hour that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HourCounts {
    /// The hour since 1970 that `this` is of.
    pub hour: i64,
    /// How many in that hour.
    pub this: u64,
    /// How many in the hour before.
    pub last: u64,
}

impl HourCounts {
    /// The number of the hour, since 1970, that a time in milliseconds is in.
    pub const fn hour_of(millis: i64) -> i64 {
        millis.div_euclid(HOUR_MILLIS)
    }

    /// The same counts as they are seen in `hour`; hours that have passed empty them.
    pub const fn seen_in(self, hour: i64) -> Self {
        match hour.saturating_sub(self.hour) {
            0 => self,
            1 => Self { hour, this: 0, last: self.this },
            _ => Self { hour, this: 0, last: 0 },
        }
    }

    /// The counts in `hour` after `count` more died in the hour `died`, which may be an earlier one: a dead letter
    /// that is taken in or imported late counts in the hour of its death.
    pub const fn plus(self, hour: i64, died: i64, count: u64) -> Self {
        let mut counts = self.seen_in(hour);
        match hour.saturating_sub(died) {
            ..=0 => counts.this += count,
            1 => counts.last += count,
            _ => {}
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_pass_and_late_deaths_count_in_their_own_hour() {
        let start = HourCounts::default().plus(10, 10, 2);
        assert_eq!((start.this, start.last), (2, 0));
        let next = start.plus(11, 11, 1);
        assert_eq!((next.this, next.last), (1, 2));
        let late = next.plus(11, 10, 5).plus(11, 3, 7);
        assert_eq!((late.this, late.last), (1, 7));
        let later = late.seen_in(13);
        assert_eq!((later.this, later.last), (0, 0));
        assert_eq!(HourCounts::hour_of(-1), -1);
    }
}
