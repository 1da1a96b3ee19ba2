//! The delay topology: how a message waits, without a plugin and without blocking the messages behind it.
//!
//! RabbitMQ expires messages only at the head of a queue. So every delay queue has one time to live, and the first
//! message in it is always the first to expire. A delay is written as an octal number of 25 ms units; the message
//! waits once for each digit that is not 0, from the highest digit down, in the queue of that digit and level. Octal,
//! because it keeps a route to three queues: each hop adds latency.
//!
//! A message carries the routing keys of its whole route. The default exchange takes it to its first delay queue.
//! From there on `BCC` keys decide: when the message expires, its level's exchange looks only for keys that begin with
//! that level, and finds one: the next delay queue, or the work queue. All exchanges are direct. Topic exchanges with
//! patterns cost the broker half as much CPU time again, and every additional exchange costs some.

use std::{fmt, time::Duration};

use sha2::{Digest, Sha256};

use super::return_route::ReturnRoute;
use crate::wire::hex;

/// The prefix of all delay exchanges, queues and routing keys. No other queue may have it.
pub(crate) const PREFIX: &str = "bezoar.delay.";
/// The unit that delays are counted in.
pub(crate) const UNIT: Duration = Duration::from_millis(25);
/// The largest number of octal digits of a delay.
const MOST_LEVELS: u32 = 10;
const DIGIT_BITS: u32 = 3;
/// A delay may be rounded up by 1/64 if that saves a hop.
const TOLERANCE: u32 = 64;

/// The longest delay. The highest level has one queue, with a time to live of 38 days; the broker allows at most 49.
pub const MAX: Duration = Duration::from_secs(75 * 24 * 60 * 60);

/// A delay queue: one digit at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DelayQueue {
    pub(crate) level: u32,
    pub(crate) digit: u32,
}

impl DelayQueue {
    /// Every delay queue of so many levels.
    pub(crate) fn all(levels: u32) -> impl Iterator<Item = Self> {
        let digits = 1..1 << DIGIT_BITS;
        let of = move |level| digits.clone().map(move |digit| Self { level, digit });
        (0..levels).flat_map(of).filter(|queue| queue.time_to_live_ms().is_some())
    }

    /// How long the queue holds a message; `None` if that exceeds the broker's limit.
    pub(crate) fn time_to_live_ms(self) -> Option<u32> {
        let units = u64::from(self.digit) << (DIGIT_BITS * self.level);
        (u128::from(units) * UNIT.as_millis()).try_into().ok()
    }

    fn of(units: u32, level: u32) -> Option<Self> {
        let digit = units >> (DIGIT_BITS * level) & ((1 << DIGIT_BITS) - 1);
        (digit > 0).then_some(Self { level, digit })
    }
}

impl fmt::Display for DelayQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.level, self.digit)
    }
}

/// The route of a message through the delay queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DelayRoute {
    /// The first delay queue.
    pub(crate) first: DelayQueue,
    /// The routing key that applies after each delay queue; the last one leads to the work queue.
    pub(crate) hop_keys: Vec<String>,
}

/// The number of levels for delays up to `longest`, however they are rounded.
pub(crate) fn levels(longest: Duration) -> u32 {
    let units = units(longest.min(MAX));
    let most = units + units / TOLERANCE;
    (u32::BITS - most.leading_zeros()).div_ceil(DIGIT_BITS).clamp(1, MOST_LEVELS)
}

/// The route of a message that reaches `queue` after `delay`; `None` for a delay of 0. The delay must not be longer than
/// that of the levels.
pub(crate) fn route(
    delay: Duration,
    (queue, back): (&str, ReturnRoute),
    levels: u32,
) -> Option<DelayRoute> {
    let units = rounded(units(delay.min(MAX)), levels);
    let mut queues = (0..levels).rev().filter_map(|level| DelayQueue::of(units, level));
    let first = queues.next()?;
    let (mut hop_keys, mut last) = (Vec::new(), first);
    for queue in queues {
        hop_keys.push(hop_key(last.level, queue));
        last = queue;
    }
    hop_keys.push(exit_key(last.level, queue, back));
    Some(DelayRoute { first, hop_keys })
}

/// The routing key from a level to another delay queue.
pub(crate) fn hop_key(level: u32, to: DelayQueue) -> String {
    format!("{PREFIX}{level}>{to}")
}

/// The routing key from a level to the work queue `queue`, or to its return queue.
pub(crate) fn exit_key(level: u32, queue: &str, route: ReturnRoute) -> String {
    let through = match route {
        ReturnRoute::Direct => "",
        ReturnRoute::ThroughQueue => "return.",
    };
    format!("{PREFIX}{level}>{through}{}", digits(queue))
}

/// The routing key from a return queue to its work queue `queue`.
pub(crate) fn return_key(queue: &str) -> String {
    format!("{PREFIX}return>{}", digits(queue))
}

/// Stands for a queue. Hashed, because a key has less room than a name.
fn digits(queue: &str) -> String {
    let mut digits = hex(&Sha256::digest(queue).into());
    digits.truncate(24);
    digits
}

/// Whole units, rounded up: no message is early.
fn units(delay: Duration) -> u32 {
    u32::try_from(delay.as_nanos().div_ceil(UNIT.as_nanos())).unwrap_or(u32::MAX)
}

/// Rounded up to as few digits other than 0 as the tolerance allows.
fn rounded(units: u32, levels: u32) -> u32 {
    let up = |level| units.next_multiple_of(1_u32 << (DIGIT_BITS * level));
    let most = units + units / TOLERANCE;
    (0..levels).rev().map(up).find(|longer| *longer <= most).unwrap_or(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: (&str, ReturnRoute) = ("q", ReturnRoute::Direct);

    /// The total delay of a route. Each key must begin at the level where the one before it led.
    fn total(route: &DelayRoute) -> Duration {
        let held =
            |queue: DelayQueue| Duration::from_millis(queue.time_to_live_ms().unwrap().into());
        let (mut total, mut at) = (held(route.first), route.first);
        let (last, hop_keys) = route.hop_keys.split_last().unwrap();
        for key in hop_keys {
            at = DelayQueue::all(MOST_LEVELS)
                .find(|queue| *key == hop_key(at.level, *queue))
                .unwrap();
            total += held(at);
        }
        assert_eq!(*last, exit_key(at.level, Q.0, Q.1), "{route:?}");
        total
    }

    #[test]
    fn a_delay_is_kept_within_its_tolerance_and_never_early() {
        let mut delay = Duration::from_millis(1);
        while delay < MAX {
            let route = route(delay, Q, levels(delay)).unwrap();
            let (took, late) = (total(&route), delay / TOLERANCE + UNIT);
            assert!(took >= delay && took <= delay + late, "{delay:?} took {took:?}");
            assert!(route.hop_keys.len() <= 3, "{route:?}");
            delay = delay * 113 / 100 + Duration::from_millis(1);
        }
    }

    #[test]
    fn the_longest_delay_fits_and_longer_ones_are_capped() {
        let longest = route(MAX, Q, levels(MAX)).unwrap();
        assert!(total(&longest) >= MAX);
        assert_eq!(route(Duration::MAX, Q, levels(Duration::MAX)), Some(longest));
        assert_eq!(route(Duration::ZERO, Q, levels(Duration::ZERO)), None);
    }

    #[test]
    fn a_route_has_one_delay_queue_for_each_digit() {
        let hop_keys = vec!["bezoar.delay.1>0.5".to_owned(), exit_key(0, Q.0, Q.1)];
        let first = DelayQueue { level: 1, digit: 3 };
        assert_eq!(route(UNIT * 0o35, Q, 2), Some(DelayRoute { first, hop_keys }));
    }
}
