//! Limits the rate of requests.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The maximum rate of a route's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The average time between requests.
    pub each: Duration,
    /// How many requests may be sent at once after a pause.
    pub burst: NonZeroU32,
}

/// A token bucket, stored as the time at which it will be full again: one value instead of a count that has to be
/// refilled.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: RateLimit,
    full_at: Instant,
}

impl Bucket {
    fn new(rate: RateLimit, now: Instant) -> Self {
        Self { rate, full_at: now }
    }

    /// Takes a token and returns how long to wait for it; takes none if that is longer than `most`.
    fn take(&mut self, now: Instant, most: Duration) -> Result<Duration, Duration> {
        let each = self.rate.each;
        let head_start = each * (self.rate.burst.get() - 1);
        let full_at = self.full_at.max(now);
        let wait = full_at.duration_since(now).saturating_sub(head_start);
        if wait > most {
            return Err(wait);
        }
        self.full_at = full_at + each;
        Ok(wait)
    }
}

/// A bucket shared by concurrent calls.
#[derive(Debug)]
pub(super) struct Limiter(Mutex<Bucket>);

impl Limiter {
    pub(super) fn new(rate: RateLimit) -> Self {
        Self(Mutex::new(Bucket::new(rate, Instant::now())))
    }

    /// Waits for a turn; returns the wait as an error if it is longer than `most`.
    pub(super) async fn turn(&self, most: Duration) -> Result<(), Duration> {
        let now = Instant::now();
        let wait = self.0.lock().unwrap_or_else(PoisonError::into_inner).take(now, most)?;
        if !wait.is_zero() {
            tokio::time::sleep_until(now + wait).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: u32, burst: u32) -> RateLimit {
        let each = Duration::from_secs(1) / per_second;
        RateLimit { each, burst: NonZeroU32::new(burst).unwrap() }
    }

    const MILLI: Duration = Duration::from_millis(1);
    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let now = Instant::now();
        let mut bucket = Bucket::new(rate(10, 3), now);
        let waits: Vec<_> = (0..6).map(|_| bucket.take(now, HOUR).unwrap().as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        assert_eq!(bucket.take(now, 399 * MILLI), Err(400 * MILLI), "and takes nothing");
        assert_eq!(bucket.take(now + 400 * MILLI, HOUR), Ok(Duration::ZERO));
        assert_eq!(bucket.take(now + 10 * HOUR, HOUR), Ok(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limiter_waits_in_turn() {
        let limiter = Limiter::new(rate(2, 1));
        let start = Instant::now();
        for _ in 0..5 {
            limiter.turn(HOUR).await.unwrap();
        }
        assert_eq!(start.elapsed().as_millis(), 2_000);
        assert_eq!(limiter.turn(MILLI).await, Err(500 * MILLI));
    }

    proptest! {
        #[test]
        fn no_second_sees_more_than_rate_and_burst(
            per_second in 1_u32..50,
            burst in 1_u32..20,
            gaps in prop::collection::vec(0_u32..300, 1..200),
        ) {
            let start = Instant::now();
            let mut bucket = Bucket::new(rate(per_second, burst), start);
            let (mut now, mut passed) = (start, Vec::new());
            for gap in gaps {
                now += gap * MILLI;
                passed.push(now + bucket.take(now, HOUR).unwrap());
            }
            for (at, from) in passed.iter().enumerate() {
                let within = passed[at..].iter().filter(|to| **to < *from + Duration::from_secs(1));
                prop_assert!(within.count() <= (per_second + burst) as usize);
            }
        }
    }
}
