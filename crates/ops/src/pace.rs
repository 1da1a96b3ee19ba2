//! A rate limiter. Its times come from a steady clock.

use std::time::Duration;

/// The burst after a pause: as many as the rate allows in this time, and at least one.
const BURST: Duration = Duration::from_millis(200);

/// Limits to a rate.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    /// How many may go now; never below 0.
    allowed: f64,
    at: Duration,
}

impl Pace {
    /// Starts with an allowance of one.
    pub(crate) fn new(per_second: f64, now: Duration) -> Self {
        Self { per_second, allowed: 1.0, at: now }
    }

    /// How many may go now.
    pub(crate) fn allowance(&mut self, now: Duration) -> u32 {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let most = (self.per_second * BURST.as_secs_f64()).max(1.0);
        self.allowed = (self.allowed + passed * self.per_second).min(most);
        self.at = now;
        self.allowed as u32
    }

    /// Records that this many went.
    pub(crate) fn spent(&mut self, count: u32) {
        self.allowed = (self.allowed - f64::from(count)).max(0.0);
    }

    /// How long until the next may go.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.allowed).max(0.0) / self.per_second).min(60.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_time_and_does_not_save_up() {
        let start = Duration::from_secs(7);
        let mut pace = Pace::new(50.0, start);
        let mut sent = 0;
        for step in 0..=1_000_u64 {
            let allowed = pace.allowance(start + Duration::from_millis(step * 10));
            pace.spent(allowed);
            sent += allowed;
        }
        assert!((500..=502).contains(&sent), "{sent} in ten seconds");
        assert_eq!(pace.allowance(start + Duration::from_secs(3_600)), 10);
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let start = Duration::from_secs(7);
        let mut pace = Pace::new(0.5, start);
        assert_eq!(pace.allowance(start), 1);
        pace.spent(1);
        assert_eq!(pace.wait(), Duration::from_secs(2));
        assert_eq!(pace.allowance(start + Duration::from_secs(2)), 1);
    }
}
