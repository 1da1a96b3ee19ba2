//! How a delayed message finds its way, without a plugin and without waiting behind another.
//!
//! A ladder of queues, each with one time to live. A delay is an octal number of units; the message rests once
//! for each digit that is not 0, from the highest down, in the queue of that digit at that level. All messages
//! of one queue wait equally long, so the first is always the first to go. Octal, so that there are at most
//! three rests on a way: each adds its own lag.
//!
//! A message carries the keys of its whole way, and they stay the same: the queue of its first rest, which the
//! broker's default exchange knows (and no queue has the name of another key), and a turn for what follows each rest. Behind each level is an exchange that
//! knows only the turns that begin there: to another rest, or to the end. Exchanges are direct ones, and few: with
//! patterns on topic exchanges the broker took half as much processor time again, and each further one costs.

use std::{fmt, time::Duration};

use sha2::{Digest, Sha256};

use crate::wire::hex;

/// What everything of the ladder begins with, and nothing else.
pub(crate) const PREFIX: &str = "bezoar.delay.";
/// What delays are counted in.
pub(crate) const UNIT: Duration = Duration::from_millis(25);
/// How many digits a delay has.
pub(crate) const LEVELS: u32 = 10;
const DIGIT_BITS: u32 = 3;
/// A delay may be longer by one part of so many, if that saves rests.
const TOLERANCE: u32 = 64;

/// The longest delay. The highest level has one queue, of 38 days; the broker allows none above 49.
pub(crate) const MAX: Duration = Duration::from_secs(75 * 24 * 60 * 60);

/// A queue of the ladder: a digit at its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) level: u32,
    pub(crate) digit: u32,
}

impl Rest {
    /// All that there are.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let digits = 1..1 << DIGIT_BITS;
        let of = move |level| digits.clone().map(move |digit| Self { level, digit });
        (0..LEVELS).flat_map(of).filter(|rest| rest.time_to_live_ms().is_some())
    }

    /// How long it holds a message; none if the broker cannot count so far.
    pub(crate) fn time_to_live_ms(self) -> Option<u32> {
        let units = u64::from(self.digit) << (DIGIT_BITS * self.level);
        (u128::from(units) * UNIT.as_millis()).try_into().ok()
    }

    fn of(units: u32, level: u32) -> Option<Self> {
        let digit = units >> (DIGIT_BITS * level) & ((1 << DIGIT_BITS) - 1);
        (digit > 0).then_some(Self { level, digit })
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.level, self.digit)
    }
}

/// A way down the ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// Where it begins.
    pub(crate) first: Rest,
    /// The key of what follows each rest.
    pub(crate) turns: Vec<String>,
}

/// The way of a message that is to be in `queue` after `delay`; none if there is nothing to wait for.
pub(crate) fn way(delay: Duration, queue: &str) -> Option<Way> {
    let units = rounded(units(delay.min(MAX)));
    let mut rests = (0..LEVELS).rev().filter_map(|level| Rest::of(units, level));
    let first = rests.next()?;
    let (mut turns, mut last) = (Vec::new(), first);
    for rest in rests {
        turns.push(turn(last.level, rest));
        last = rest;
    }
    turns.push(end(last.level, queue));
    Some(Way { first, turns })
}

/// The key of what goes on from a level to rest again.
pub(crate) fn turn(level: u32, to: Rest) -> String {
    format!("{PREFIX}{level}>{to}")
}

/// The key of what leaves a level for `queue`, whose name may be longer than a key has room for.
pub(crate) fn end(level: u32, queue: &str) -> String {
    let mut digits = hex(&Sha256::digest(queue).into());
    digits.truncate(24);
    format!("{PREFIX}{level}>{digits}")
}

/// Whole units, rounded up: nothing is early.
fn units(delay: Duration) -> u32 {
    u32::try_from(delay.as_nanos().div_ceil(UNIT.as_nanos())).unwrap_or(u32::MAX)
}

/// Rounded up to as few digits as the tolerance allows.
fn rounded(units: u32) -> u32 {
    let up = |level| units.next_multiple_of(1_u32 << (DIGIT_BITS * level));
    let most = units + units / TOLERANCE;
    (0..LEVELS).rev().map(up).find(|longer| *longer <= most).unwrap_or(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a way takes, each of whose turns must begin where the last one led.
    fn total(way: &Way, queue: &str) -> Duration {
        let held = |rest: Rest| Duration::from_millis(rest.time_to_live_ms().unwrap().into());
        let (mut total, mut at) = (held(way.first), way.first);
        let (last, turns) = way.turns.split_last().unwrap();
        for key in turns {
            at = Rest::all().find(|rest| *key == turn(at.level, *rest)).unwrap();
            total += held(at);
        }
        assert_eq!(*last, end(at.level, queue), "{way:?}");
        total
    }

    #[test]
    fn a_delay_is_kept_within_its_tolerance_and_never_early() {
        let mut delay = Duration::from_millis(1);
        while delay < MAX {
            let way = way(delay, "q").unwrap();
            let (took, late) = (total(&way, "q"), delay / TOLERANCE + UNIT);
            assert!(took >= delay && took <= delay + late, "{delay:?} took {took:?}");
            assert!(way.turns.len() <= 3, "{way:?}");
            delay = delay * 113 / 100 + Duration::from_millis(1);
        }
    }

    #[test]
    fn the_longest_delay_fits_and_longer_ones_are_held_to_it() {
        let longest = way(MAX, "q").unwrap();
        assert!(total(&longest, "q") >= MAX);
        assert_eq!(way(Duration::MAX, "q"), Some(longest));
        assert_eq!(way(Duration::ZERO, "q"), None);
    }

    #[test]
    fn a_way_rests_once_for_each_digit() {
        let turns = vec!["bezoar.delay.1>0.5".to_owned(), end(0, "q")];
        let first = Rest { level: 1, digit: 3 };
        assert_eq!(way(UNIT * 0o35, "q"), Some(Way { first, turns }));
    }
}
