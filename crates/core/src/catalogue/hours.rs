//! How many dead letters a cause got in the current hour and in the previous one.

const HOUR_MILLIS: i64 = 60 * 60 * 1_000;

/// Counts of two consecutive hours. They are stored as they were last updated; use [`seen_in`](Self::seen_in)
/// to read them at a later hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HourCounts {
    /// The hour, counted since 1970, to which `this` belongs.
    pub hour: i64,
    /// The count of that hour.
    pub this: u64,
    /// The count of the hour before.
    pub last: u64,
}

impl HourCounts {
    /// The number of the hour, since 1970, that a time in milliseconds is in.
    pub const fn hour_of(millis: i64) -> i64 {
        millis.div_euclid(HOUR_MILLIS)
    }

    /// The counts as seen in `hour`: counts of hours that have passed move or become 0.
    pub const fn seen_in(self, hour: i64) -> Self {
        match hour.saturating_sub(self.hour) {
            0 => self,
            1 => Self { hour, this: 0, last: self.this },
            _ => Self { hour, this: 0, last: 0 },
        }
    }

    /// The counts in `hour` with `count` more dead letters of the hour `died`. That may be an earlier hour: a dead
    /// letter that is taken in or imported late counts in the hour in which it was dead-lettered.
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
