//! When a message is retried, unless another strategy is used.

use std::time::Duration;

use rand::Rng;

use crate::{Decision, Failure, Ledger, RetryPolicy, RetryStrategy};

/// Waits base^(c + 1) minutes, where c is the raised retry count, and lengthens that by the jitter. Nothing else changes
/// the delay: also not an endpoint that names a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowersOfMinutes(pub(super) RetryPolicy);

impl RetryStrategy for PowersOfMinutes {
    fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision {
        let mut failure = failure.clone();
        failure.retry_after = None;
        self.0.decide(ledger, &failure, jitter)
    }

    fn largest_delay(&self) -> Duration {
        self.0.largest_delay()
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{Jitter, Verdict, poison_retry::PoisonRetryOptions};

    #[test]
    fn a_wait_that_the_endpoint_names_changes_nothing() {
        let options = PoisonRetryOptions { jitter: Jitter::None, ..PoisonRetryOptions::default() };
        let failure = Failure::transient("busy").with_retry_after(Duration::from_secs(3_600));
        let mut random = StdRng::seed_from_u64(1);
        let decision =
            options.strategy().unwrap().decide(&Ledger::default(), &failure, &mut random);
        assert_eq!(decision.verdict, Verdict::Retry { after: Duration::from_secs(240) });
    }
}
