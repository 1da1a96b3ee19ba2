//! Retries with exponential backoff, up to a time limit.

use std::time::Duration;

use tokio::time::{Instant, sleep};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Growing pauses between tries, until the limit has passed since the first of them.
#[derive(Debug)]
pub(crate) struct Retry {
    limit: Duration,
    since: Option<Instant>,
    tries: u32,
}

impl Retry {
    /// Retries for this long.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: None, tries: 0 }
    }

    /// Waits for the next try, at least as long as `asked`; returns `false` at once if that would exceed the limit.
    pub(crate) async fn wait(&mut self, asked: Option<Duration>) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let pause = pause(self.tries, asked, rand::random());
        self.tries += 1;
        if since.elapsed() + pause > self.limit {
            return false;
        }
        sleep(pause).await;
        true
    }
}

/// Between half and all of a doubling time, so that clients refused together do not retry together.
fn pause(tries: u32, asked: Option<Duration>, chance: f64) -> Duration {
    let full = FIRST.saturating_mul(1 << tries.min(16)).min(LONGEST);
    full.mul_f64(0.5 + chance / 2.0).max(asked.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_honour_the_requested_wait() {
        let millis = |tries, asked, chance| pause(tries, asked, chance).as_millis();
        assert_eq!(millis(0, None, 0.0), 50);
        assert_eq!(millis(0, None, 1.0), 100);
        assert_eq!(millis(3, None, 1.0), 800);
        assert_eq!(millis(u32::MAX, None, 1.0), 5_000);
        assert_eq!(millis(0, Some(Duration::from_secs(2)), 1.0), 2_000);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_end_at_the_limit() {
        let mut retry = Retry::new(Duration::from_secs(30));
        let started = Instant::now();
        while retry.wait(None).await {}
        let waited = started.elapsed();
        assert!((20..=30).contains(&waited.as_secs()), "{waited:?}");
        assert!(!Retry::new(Duration::ZERO).wait(None).await);
        assert!(!Retry::new(Duration::from_secs(5)).wait(Some(Duration::from_secs(60))).await);
    }
}
