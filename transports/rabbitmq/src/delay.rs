//! How a delayed message finds its way, without a plugin and without waiting behind another.
//!
//! A ladder of queues, each with one time to live. A delay is an octal number of units; the message rests once
//! for each digit that is not 0, from the highest down, in the queue of that digit at that level. All messages
//! of one queue wait equally long, so the first is always the first to go. Octal, so that there are at most
//! three rests on a way: each adds its own lag.
//!
//! A message carries the keys of its whole way, and they stay the same: where it enters, a turn for each
//! rest, where to in the end. Behind each level is an exchange that knows only the turns that begin there.
//! Exchanges are direct ones: with patterns on topic exchanges the broker took half as much processor time again.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::wire::hex;

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

    /// The key of what begins here.
    pub(crate) fn entry(self) -> String {
        format!("{}.{}", self.level, self.digit)
    }
}

/// A way down the ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// Where it begins.
    pub(crate) entry: String,
    /// The turns, and where it ends.
    pub(crate) turns: Vec<String>,
}

/// The way of a message that is to be in `queue` after `delay`; none if there is nothing to wait for.
pub(crate) fn way(delay: Duration, queue: &str) -> Option<Way> {
    let units = rounded(units(delay.min(MAX)));
    let mut rests = (0..LEVELS).rev().filter_map(|level| Rest::of(units, level));
    let first = rests.next()?;
    let (mut turns, mut last) = (Vec::new(), first);
    for rest in rests {
        turns.push(turn(last.level, Some(rest)));
        last = rest;
    }
    turns.extend([turn(last.level, None), destination(queue)]);
    Some(Way { entry: first.entry(), turns })
}

/// The key of what goes on from a level to rest again, or to the end.
pub(crate) fn turn(level: u32, to: Option<Rest>) -> String {
    to.map_or_else(|| format!("{level}>end"), |to| format!("{level}>{}", to.entry()))
}

/// The key of what ends in `queue`: names may be longer than a key has room for.
pub(crate) fn destination(queue: &str) -> String {
    let mut digits = hex(&Sha256::digest(queue).into());
    digits.truncate(24);
    digits
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
        let (mut total, mut at) = (Duration::ZERO, way.entry.clone());
        for key in &way.turns[..way.turns.len() - 1] {
            let rest = Rest::all().find(|rest| rest.entry() == at).unwrap();
            total += Duration::from_millis(rest.time_to_live_ms().unwrap().into());
            let (from, to) = key.split_once('>').unwrap();
            assert_eq!(from, rest.level.to_string(), "{way:?}");
            to.clone_into(&mut at);
        }
        assert_eq!((at.as_str(), way.turns.last()), ("end", Some(&destination(queue))));
        total
    }

    #[test]
    fn a_delay_is_kept_within_its_tolerance_and_never_early() {
        let mut delay = Duration::from_millis(1);
        while delay < MAX {
            let way = way(delay, "q").unwrap();
            let (took, late) = (total(&way, "q"), delay / TOLERANCE + UNIT);
            assert!(took >= delay && took <= delay + late, "{delay:?} took {took:?}");
            assert!(way.turns.len() <= 4, "{way:?}");
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
        let expected = ["1>0.5".to_owned(), "0>end".to_owned(), destination("q")];
        let way = way(UNIT * 0o35, "q").unwrap();
        assert_eq!(way, Way { entry: "1.3".to_owned(), turns: expected.into() });
    }
}
