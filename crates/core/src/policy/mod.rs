//! What to do after a failure: a pure function from ledger and failure to a decision.

mod backoff;
mod decision;
mod presets;
mod strategy;

use std::time::Duration;

use rand::Rng;

use self::backoff::chance;
pub use self::{
    backoff::{Backoff, Jitter},
    decision::{Decision, Verdict},
    strategy::RetryStrategy,
};
use crate::{Failure, Invalid, Ledger, Reason};

/// The longest delay before jitter that a policy can ask for: 366 days.
pub const MAX_DELAY: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The longest wait that a failure's `retry_after` can ask for: a day, or the transport's
/// [longest delay](crate::Capabilities::scheduled) if that is shorter.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of immediate retries within one attempt.
pub const MAX_IMMEDIATE_RETRIES: u32 = 10;

/// How often a failed message is retried, and when: the [`RetryStrategy`] that comes with Bezoar. The constructor
/// validates it, so every value is a valid policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    max_retries: u32,
    immediate_retries: u32,
    backoff: Backoff,
    cap: Duration,
    jitter: Jitter,
}

impl RetryPolicy {
    /// A policy with `max_retries` retries after the first attempt. No delay exceeds `cap`, which is
    /// applied before the jitter.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the field: a cap above [`MAX_DELAY`], a multiplier below 1 or above 1000 or
    /// not a number, a jitter outside 0 to 1.
    pub fn new(
        max_retries: u32,
        backoff: Backoff,
        cap: Duration,
        jitter: Jitter,
    ) -> Result<Self, Invalid> {
        backoff.check()?;
        jitter.check()?;
        if cap > MAX_DELAY {
            let problem = format!(
                "is {} s, at most {} s (366 days) are accepted",
                cap.as_secs(),
                MAX_DELAY.as_secs()
            );
            return Err(Invalid::new("max delay", problem));
        }
        Ok(Self { max_retries, immediate_retries: 0, backoff, cap, jitter })
    }

    /// Sets the number of retries; with 0, the first failure dead-letters the message.
    pub const fn with_max_retries(mut self, max_retries: u32) -> Self {
        self.max_retries = max_retries;
        self
    }

    /// Sets how often a failed handler is run again immediately before the attempt counts as failed.
    ///
    /// # Errors
    ///
    /// [`Invalid`] above [`MAX_IMMEDIATE_RETRIES`].
    pub fn with_immediate_retries(mut self, retries: u32) -> Result<Self, Invalid> {
        if retries > MAX_IMMEDIATE_RETRIES {
            let problem = format!("is {retries}, at most {MAX_IMMEDIATE_RETRIES} are accepted");
            return Err(Invalid::new("immediate retries", problem));
        }
        self.immediate_retries = retries;
        Ok(self)
    }

    /// How many retries follow the first attempt.
    pub const fn max_retries(&self) -> u32 {
        self.max_retries
    }

    /// How often a failed handler is run again immediately, within the same attempt.
    pub const fn immediate_retries(&self) -> u32 {
        self.immediate_retries
    }

    /// How delays grow from retry to retry.
    pub const fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// The longest delay before jitter.
    pub const fn cap(&self) -> Duration {
        self.cap
    }

    /// How jitter changes the delays.
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The delays before the retries, in order, without jitter.
    pub fn delays(&self) -> impl Iterator<Item = Duration> {
        let policy = *self;
        (1..=self.max_retries).map(move |retry| policy.delay(retry))
    }

    /// The longest delay that the policy itself asks for, jitter included. A failure's `retry_after` may ask for more,
    /// up to [`MAX_RETRY_AFTER`].
    pub fn largest_delay(&self) -> Duration {
        match self.max_retries {
            0 => Duration::ZERO,
            last => self.delay(last).mul_f64(self.jitter.largest()),
        }
    }

    /// Decides what happens to a message with this ledger after this failure.
    ///
    /// Pass the ledger as it was before the failure is recorded. The failure's `retry_after`
    /// lengthens the delay, to at most [`MAX_RETRY_AFTER`].
    pub fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision {
        let decision = if !failure.kind.is_retryable() {
            Decision::dead_letter(ledger, Reason::not_retryable(failure))
        } else if ledger.failed >= self.max_retries {
            Decision::dead_letter(ledger, Reason::exhausted(self.max_retries))
        } else {
            let delay = self.delay(ledger.failed + 1);
            let jittered = delay.mul_f64(self.jitter.factor(chance(jitter)));
            let asked = failure.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
            Decision::retry(ledger, jittered.max(asked))
        };
        decision.of(self.max_retries)
    }

    /// The delay before retry number `retry` (from 1), without jitter.
    fn delay(&self, retry: u32) -> Duration {
        let seconds = self.backoff.seconds(retry).min(self.cap.as_secs_f64());
        Duration::try_from_secs_f64(seconds).unwrap_or(self.cap)
    }
}

impl RetryStrategy for RetryPolicy {
    fn decide(&self, ledger: &Ledger, failure: &Failure, jitter: &mut dyn Rng) -> Decision {
        self.decide(ledger, failure, jitter)
    }

    fn largest_delay(&self) -> Duration {
        self.largest_delay()
    }

    fn immediate_retries(&self) -> u32 {
        self.immediate_retries
    }
}

impl Default for RetryPolicy {
    /// The policy [for jobs](Self::jobs).
    fn default() -> Self {
        Self::jobs()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{Code, FailureKind};

    fn failed(times: u32) -> Ledger {
        Ledger::restored(times, times, 0, 0, vec![])
    }

    fn delays(policy: RetryPolicy) -> Vec<u64> {
        policy.delays().map(|delay| delay.as_secs()).collect()
    }

    fn check(policy: RetryPolicy, failed_before: u32, kind: FailureKind, expected: &str) {
        let failure = Failure::new(kind, "boom");
        let decision =
            policy.decide(&failed(failed_before), &failure, &mut StdRng::seed_from_u64(1));
        assert_eq!(decision.reason.to_string(), expected);
    }

    #[test]
    fn presets_wait_as_documented() {
        let table: [(&str, u32, &[u64]); 5] = [
            ("jobs", 0, &[1, 2, 4]),
            ("poison_queue", 0, &[240, 480]),
            ("outbox", 0, &[30, 60, 120, 240, 480]),
            ("webhook", 0, &[5, 25, 125, 625, 3_125, 15_625, 36_000, 36_000]),
            ("broker", 3, &[]),
        ];
        assert_eq!(RetryPolicy::PRESETS.map(|(name, _)| name), table.map(|(name, ..)| name));
        for ((name, policy), (_, at_once, seconds)) in RetryPolicy::PRESETS.iter().zip(table) {
            assert_eq!((policy.immediate_retries, &*delays(*policy)), (at_once, seconds), "{name}");
        }
        assert_eq!(delays(RetryPolicy::outbox().with_max_retries(9))[7..], [3_600, 3_600]);
        assert_eq!(delays(RetryPolicy::broker().with_max_retries(2)), [1, 2]);
    }

    /// The delay is base^(c + 1) minutes, where c is the number of failures, and at most 30 % longer.
    #[test]
    fn powers_of_minutes_are_the_poison_queues_delays() {
        let minutes = |base| {
            let backoff = Backoff::powers_of_minutes(base);
            let policy = RetryPolicy::new(4, backoff, MAX_DELAY, Jitter::Lengthening(0.3)).unwrap();
            delays(policy).into_iter().map(|seconds| seconds / 60).collect::<Vec<_>>()
        };
        for (base, c1, c2, c3, c4) in
            [(1, 1, 1, 1, 1), (2, 4, 8, 16, 32), (3, 9, 27, 81, 243), (5, 25, 125, 625, 3_125)]
        {
            assert_eq!(minutes(base), [c1, c2, c3, c4], "base {base}");
        }
        assert_eq!(RetryPolicy::poison_queue().backoff, Backoff::powers_of_minutes(2));
        let longest = RetryPolicy::poison_queue().with_max_retries(3).largest_delay();
        assert_eq!(longest, Duration::from_secs(16 * 60).mul_f64(1.3));
    }

    #[test]
    fn a_poison_queue_dead_letters_at_the_third_failure_without_a_wait() {
        let verdict = |failed_before| {
            let mut random = StdRng::seed_from_u64(1);
            let failure = Failure::transient("refused");
            let policy = RetryPolicy::poison_queue();
            policy.decide(&failed(failed_before), &failure, &mut random)
        };
        assert!(matches!(verdict(0).verdict, Verdict::Retry { .. }));
        assert!(matches!(verdict(1).verdict, Verdict::Retry { .. }));
        let last = verdict(2);
        assert_eq!((last.verdict, last.attempt()), (Verdict::DeadLetter, 3));
    }

    #[test]
    fn fixed_and_linear_delays() {
        let second = Duration::from_secs(1);
        let policy = |backoff| RetryPolicy::new(4, backoff, 3 * second, Jitter::None).unwrap();
        assert_eq!(delays(policy(Backoff::Fixed { delay: 2 * second })), [2, 2, 2, 2]);
        assert_eq!(delays(policy(Backoff::Linear { first: second, step: second })), [1, 2, 3, 3]);
    }

    #[test]
    fn reasons_are_for_people() {
        let jobs = RetryPolicy::jobs();
        check(jobs, 0, FailureKind::Unknown, "retry 1 of 3");
        check(jobs, 1, FailureKind::Database, "retry 2 of 3");
        check(jobs, 3, FailureKind::Transient, "max retries (3) exhausted");
        check(jobs, 0, FailureKind::Permanent, "non-retryable error: permanent");
        check(jobs, 9, FailureKind::Unauthorized, "non-retryable error: unauthorized");
        check(jobs.with_max_retries(0), 0, FailureKind::Transient, "max retries (0) exhausted");
    }

    #[test]
    fn a_decision_counts_attempts_and_retries() {
        let counts = |failed_before| {
            let failure = Failure::transient("boom");
            let mut random = StdRng::seed_from_u64(1);
            let decision =
                RetryPolicy::jobs().decide(&failed(failed_before), &failure, &mut random);
            (decision.attempt(), decision.retry_count, decision.max_retries)
        };
        assert_eq!(counts(0), (1, 1, Some(3)));
        assert_eq!(counts(2), (3, 3, Some(3)));
        assert_eq!(counts(3), (4, 3, Some(3)), "three retries, and no fourth");
    }

    #[test]
    fn a_strategy_without_a_maximum_says_so() {
        let decision = Decision::retry(&failed(4), Duration::ZERO);
        assert_eq!((decision.reason.to_string().as_str(), decision.max_retries), ("retry 5", None));
    }

    #[test]
    fn undecodable_and_unhandled_messages_have_their_own_reasons() {
        let reason = |code| {
            let failure = Failure::permanent("x").with_code(code);
            let decision = RetryPolicy::jobs().decide(
                &Ledger::default(),
                &failure,
                &mut StdRng::seed_from_u64(1),
            );
            decision.reason.to_string()
        };
        assert_eq!(reason(Code::UNDECODABLE), "Failed to deserialize message");
        assert_eq!(reason(Code::NO_HANDLER), "no handler for this type of message");
    }

    #[test]
    fn the_cap_comes_before_the_jitter() {
        let policy = RetryPolicy::jobs().with_max_retries(100);
        assert_eq!(policy.largest_delay(), Duration::from_secs(33));
        assert_eq!(RetryPolicy::broker().largest_delay(), Duration::ZERO, "it never waits");
    }

    #[test]
    fn invalid_values_are_refused_with_their_field() {
        let second = Duration::from_secs(1);
        let field = |multiplier, jitter, cap| {
            let backoff = Backoff::Exponential { first: second, multiplier };
            RetryPolicy::new(1, backoff, cap, jitter).unwrap_err().field
        };
        for multiplier in [0.9, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(field(multiplier, Jitter::None, second), "multiplier");
        }
        for jitter in
            [Jitter::Symmetric(1.1), Jitter::Lengthening(-0.1), Jitter::Symmetric(f64::NAN)]
        {
            assert_eq!(field(2.0, jitter, second), "jitter");
        }
        assert_eq!(field(2.0, Jitter::None, Duration::MAX), "max delay");
        let too_many = RetryPolicy::jobs().with_immediate_retries(11).unwrap_err();
        assert_eq!(too_many.field, "immediate retries");
    }

    #[test]
    fn retry_after_lengthens_to_at_most_a_day_and_never_shortens() {
        let after = |asked| {
            let failure = Failure::transient("busy").with_retry_after(Duration::from_secs(asked));
            let policy = RetryPolicy { jitter: Jitter::None, ..RetryPolicy::jobs() };
            policy.decide(&failed(1), &failure, &mut StdRng::seed_from_u64(1)).verdict
        };
        let retry = |seconds| Verdict::Retry { after: Duration::from_secs(seconds) };
        assert_eq!(after(0), retry(2));
        assert_eq!(after(7), retry(7));
        assert_eq!(after(1_000_000), retry(86_400));
    }

    fn any_backoff() -> impl Strategy<Value = Backoff> {
        let duration = || any::<u64>().prop_map(Duration::from_millis);
        prop_oneof![
            duration().prop_map(|delay| Backoff::Fixed { delay }),
            (duration(), duration()).prop_map(|(first, step)| Backoff::Linear { first, step }),
            (duration(), 1.0..1000.0)
                .prop_map(|(first, multiplier)| Backoff::Exponential { first, multiplier }),
            any::<u32>().prop_map(Backoff::powers_of_minutes),
        ]
    }

    fn any_jitter() -> impl Strategy<Value = Jitter> {
        prop_oneof![
            Just(Jitter::None),
            Just(Jitter::Full),
            (0.0..=1.0).prop_map(Jitter::Symmetric),
            (0.0..=1.0).prop_map(Jitter::Lengthening),
        ]
    }

    proptest! {
        #[test]
        fn any_policy_and_any_ledger_give_a_bounded_delay(
            backoff in any_backoff(), jitter in any_jitter(), cap in 0..MAX_DELAY.as_secs(),
            max_retries: u32, failed_before: u32, kind in 0..FailureKind::ALL.len(), seed: u64,
        ) {
            let Ok(policy) = RetryPolicy::new(max_retries, backoff, Duration::from_secs(cap), jitter) else {
                return Ok(()); // powers of 0, or of more than 1000
            };
            let kind = FailureKind::ALL[kind];
            let random = &mut StdRng::seed_from_u64(seed);
            let decision = policy.decide(&failed(failed_before), &Failure::new(kind, "x"), random);
            let retried = kind.is_retryable() && failed_before < max_retries;
            prop_assert_eq!(decision.retry_count, failed_before + u32::from(retried));
            match decision.verdict {
                Verdict::Retry { after } => {
                    prop_assert!(retried);
                    let least = match jitter {
                        Jitter::Full => Duration::ZERO,
                        Jitter::Symmetric(most) => policy.delay(failed_before + 1).mul_f64((1.0 - most).max(0.0)),
                        _ => policy.delay(failed_before + 1),
                    };
                    let slack = Duration::from_micros(1);
                    prop_assert!(after + slack >= least);
                    prop_assert!(after <= policy.largest_delay() + slack);
                }
                Verdict::DeadLetter => prop_assert!(!retried),
            }
        }

        #[test]
        fn poison_queue_delays_lie_between_d_and_1_3_d(seed: u64, retry in 0..3_u32) {
            let failure = Failure::transient("x");
            let decision = RetryPolicy::poison_queue().with_max_retries(3)
                .decide(&failed(retry), &failure, &mut StdRng::seed_from_u64(seed));
            let d = Duration::from_secs(60 * 2_u64.pow(retry + 2));
            let Verdict::Retry { after } = decision.verdict else { panic!("{decision:?}") };
            prop_assert!(after >= d && after <= d.mul_f64(1.3));
        }
    }
}
