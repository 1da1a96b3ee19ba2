//! The options of a processor, their ranges and defaults.

use std::{fmt, ops::RangeInclusive, time::Duration};

use super::strategy::PowersOfMinutes;
use crate::{Backoff, Invalid, Jitter, MAX_DELAY, RetryPolicy, RetryStrategy};

/// The longest delay: 7 days, which is the longest that Azure Storage Queue hides a message.
pub const LONGEST_DELAY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const BATCH: RangeInclusive<u32> = 1..=32;
const BATCHES: RangeInclusive<u32> = 1..=10_000;

/// How many messages a run takes, how often each is retried, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoisonRetryOptions {
    /// The time from one scheduled run to the next: 1 s to 366 days. Default 5 minutes.
    pub every: Duration,
    /// How many messages are taken at a time and delivered concurrently: 1 to 32. Default 10.
    pub batch: u32,
    /// How many batches one run takes at most, while the queue has enough messages: 1 to 10,000. Default 1.
    pub batches: u32,
    /// How often a message is delivered before it becomes a dead letter. Default 3. With 0, every message becomes one
    /// without a delivery.
    pub max_attempts: u32,
    /// The base of the delays, in minutes: at least 1. Default 2. After a failed delivery the retry count goes up to c,
    /// and the delay is base^(c + 1) minutes: 4, 8, 16 for base 2.
    pub base: u32,
    /// How long a message that was taken stays invisible to others: 1 s to 7 days. Default 5 minutes.
    pub invisibility: Duration,
    /// Lengthens each delay at random. By default by up to 30 %.
    pub jitter: Jitter,
    /// The timeout of one delivery: shorter than `invisibility`, or others could get the message meanwhile. Default
    /// 30 s.
    pub timeout: Duration,
}

impl Default for PoisonRetryOptions {
    fn default() -> Self {
        Self {
            every: 5 * MINUTE,
            batch: 10,
            batches: 1,
            max_attempts: 3,
            base: 2,
            invisibility: 5 * MINUTE,
            jitter: Jitter::Lengthening(0.3),
            timeout: Duration::from_secs(30),
        }
    }
}

impl PoisonRetryOptions {
    /// Checks every option.
    ///
    /// # Errors
    ///
    /// [`InvalidPoisonRetry`] names all options that are out of range, and a largest delay above 7 days.
    pub fn check(&self) -> Result<(), InvalidPoisonRetry> {
        self.problems(None)
    }

    /// The same with another strategy in place of `base` and `jitter`.
    ///
    /// # Errors
    ///
    /// [`InvalidPoisonRetry`] names all options that are out of range, and a largest delay above 7 days.
    pub fn check_with(&self, strategy: &dyn RetryStrategy) -> Result<(), InvalidPoisonRetry> {
        self.problems(Some(strategy))
    }

    /// When a message is retried, by the base and the jitter.
    ///
    /// # Errors
    ///
    /// [`InvalidPoisonRetry`], if they are out of range.
    pub fn strategy(&self) -> Result<PowersOfMinutes, InvalidPoisonRetry> {
        let backoff = Backoff::powers_of_minutes(self.base);
        RetryPolicy::new(self.max_attempts, backoff, MAX_DELAY, self.jitter)
            .map(PowersOfMinutes)
            .map_err(|invalid| InvalidPoisonRetry(vec![invalid]))
    }

    fn problems(&self, strategy: Option<&dyn RetryStrategy>) -> Result<(), InvalidPoisonRetry> {
        let counts = [("batch", BATCH, self.batch), ("batches", BATCHES, self.batches)];
        let mut problems: Vec<_> = counts
            .into_iter()
            .filter_map(|(field, range, count)| outside_count(field, &range, count))
            .collect();
        problems.extend(outside("every", SECOND..=YEAR, self.every));
        problems.extend(outside("invisibility", SECOND..=LONGEST_DELAY, self.invisibility));
        if self.timeout.is_zero() || self.timeout >= self.invisibility {
            let problem = format!(
                "is {} s, it must be above 0 and shorter than invisibility ({} s)",
                self.timeout.as_secs_f64(),
                self.invisibility.as_secs_f64()
            );
            problems.push(Invalid::new("timeout", problem));
        }
        problems.extend(match strategy {
            Some(strategy) => too_long(strategy.largest_delay()).into_iter().collect(),
            None => self.delay_problems(),
        });
        if problems.is_empty() { Ok(()) } else { Err(InvalidPoisonRetry(problems)) }
    }

    fn delay_problems(&self) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if self.base == 0 {
            problems.push(Invalid::new("base", "is 0, it must be at least 1"));
        }
        if !matches!(self.jitter, Jitter::None | Jitter::Lengthening(0.0..=1.0)) {
            problems.push(Invalid::new("jitter_most", "must be 0 to 1, and may only lengthen"));
        }
        if problems.is_empty() {
            problems.extend(too_long(self.largest_delay()));
        }
        problems
    }

    /// The largest delay with jitter. A base that no policy accepts is too long after its first retry.
    fn largest_delay(&self) -> Duration {
        match (self.max_attempts, self.strategy()) {
            (0, _) => Duration::ZERO,
            (_, Ok(strategy)) => strategy.largest_delay(),
            (_, Err(_)) => Duration::MAX,
        }
    }
}

fn too_long(largest: Duration) -> Option<Invalid> {
    (largest > LONGEST_DELAY).then(|| {
        let problem = "and max_attempts give a largest delay above 7 days with jitter; lower one of them or jitter_most";
        Invalid::new("base", problem)
    })
}

fn outside(field: &'static str, range: RangeInclusive<Duration>, it: Duration) -> Option<Invalid> {
    let (least, most) = (range.start().as_secs(), range.end().as_secs());
    let problem = || format!("is {} s, it must be {least} s to {most} s", it.as_secs_f64());
    (!range.contains(&it)).then(|| Invalid::new(field, problem()))
}

fn outside_count(field: &'static str, range: &RangeInclusive<u32>, count: u32) -> Option<Invalid> {
    let problem = || format!("is {count}, it must be {} to {}", range.start(), range.end());
    (!range.contains(&count)).then(|| Invalid::new(field, problem()))
}

/// Every option of a processor that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPoisonRetry(pub Vec<Invalid>);

impl fmt::Display for InvalidPoisonRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&problems.join("; "))
    }
}

impl std::error::Error for InvalidPoisonRetry {}

/// Every setting that is required and missing, in one error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("missing required configuration settings: {}", .0.join(", "))]
pub struct MissingSettings(pub Vec<&'static str>);

impl MissingSettings {
    /// Fails if any of these settings is missing.
    ///
    /// # Errors
    ///
    /// [`MissingSettings`] names all of them, in this order.
    pub fn check(settings: &[(&'static str, bool)]) -> Result<(), Self> {
        let missing: Vec<_> =
            settings.iter().filter(|(_, is_set)| !is_set).map(|(name, _)| *name).collect();
        if missing.is_empty() { Ok(()) } else { Err(Self(missing)) }
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{Failure, Ledger, Verdict};

    fn problems(change: impl Fn(&mut PoisonRetryOptions)) -> String {
        let mut options = PoisonRetryOptions::default();
        change(&mut options);
        options.check().err().map(|it| it.to_string()).unwrap_or_default()
    }

    #[test]
    fn defaults_are_as_documented() {
        let options = PoisonRetryOptions::default();
        assert_eq!(options.check(), Ok(()));
        assert_eq!((options.batch, options.max_attempts, options.base), (10, 3, 2));
        assert_eq!(options.invisibility, Duration::from_secs(300));
        let minutes: Vec<_> =
            options.strategy().unwrap().0.delays().map(|it| it.as_secs() / 60).collect();
        assert_eq!(minutes, [4, 8, 16]);
    }

    #[test]
    fn ranges_are_enforced_at_both_ends() {
        for (batch, valid) in [(0, false), (1, true), (32, true), (33, false)] {
            assert_eq!(problems(|it| it.batch = batch).is_empty(), valid, "batch {batch}");
        }
        for (millis, valid) in
            [(999, false), (1_000, true), (604_800_000, true), (604_800_001, false)]
        {
            let invisibility = Duration::from_millis(millis);
            let change = |it: &mut PoisonRetryOptions| {
                (it.invisibility, it.timeout) = (invisibility, Duration::from_millis(500));
            };
            assert_eq!(problems(change).is_empty(), valid, "invisibility {millis} ms");
        }
        for (most, valid) in
            [(-0.1, false), (0.0, true), (1.0, true), (1.1, false), (f64::NAN, false)]
        {
            let jitter = Jitter::Lengthening(most);
            assert_eq!(problems(|it| it.jitter = jitter).is_empty(), valid, "jitter {most}");
        }
        assert!(problems(|it| it.jitter = Jitter::Symmetric(0.1)).contains("only lengthen"));
        assert!(problems(|it| it.base = 0).contains("base is 0"));
        assert_eq!(problems(|it| (it.max_attempts, it.base) = (0, u32::MAX)), "", "it never waits");
    }

    #[test]
    fn all_violations_are_in_one_error() {
        let text = problems(|it| {
            (it.batch, it.batches, it.base) = (33, 0, 0);
            (it.every, it.invisibility) = (Duration::ZERO, Duration::ZERO);
            it.jitter = Jitter::Lengthening(2.0);
        });
        for field in
            ["batch ", "batches", "base", "every", "invisibility", "timeout", "jitter_most"]
        {
            assert!(text.contains(field), "{field}: {text}");
        }
    }

    #[test]
    fn a_delivery_ends_before_others_can_get_the_message() {
        let at = |seconds| problems(|it| it.timeout = Duration::from_secs(seconds));
        assert_eq!((at(299), at(1)), (String::new(), String::new()));
        assert!(at(300).contains("shorter than invisibility"));
        assert!(at(0).contains("above 0"));
    }

    #[test]
    fn a_largest_delay_above_seven_days_is_refused_with_jitter_and_without() {
        // 2^13 minutes are 5.7 days; with 30 % jitter 7.4 days.
        let at = |max_attempts, jitter| {
            problems(|it| (it.max_attempts, it.jitter) = (max_attempts, jitter))
        };
        assert_eq!(at(12, Jitter::None), "");
        assert!(at(12, Jitter::Lengthening(0.3)).contains("above 7 days"));
        assert!(at(13, Jitter::None).contains("above 7 days"));
        // 100^2 minutes are 6.9 days, and 101^2 are 7.1.
        let base =
            |base| problems(|it| (it.base, it.max_attempts, it.jitter) = (base, 1, Jitter::None));
        assert_eq!(base(100), "");
        for too_large in [101, 1_000, 1_001, u32::MAX] {
            assert!(base(too_large).contains("above 7 days"), "{too_large}");
        }
        assert!(at(u32::MAX, Jitter::None).contains("above 7 days"));
    }

    #[derive(Debug)]
    struct Weeks(u64);

    impl RetryStrategy for Weeks {
        fn decide(&self, ledger: &Ledger, _: &Failure, _: &mut dyn rand::Rng) -> crate::Decision {
            crate::Decision::retry(ledger, self.largest_delay())
        }

        fn largest_delay(&self) -> Duration {
            LONGEST_DELAY.mul_f64(1.0) * u32::try_from(self.0).unwrap()
        }
    }

    #[test]
    fn another_strategy_is_held_to_seven_days_too() {
        let options = PoisonRetryOptions { base: 0, ..PoisonRetryOptions::default() };
        assert_eq!(options.check_with(&Weeks(1)), Ok(()), "it has no base");
        assert!(options.check_with(&Weeks(2)).is_err());
    }

    /// Every base and retry count whose delay is accepted: base^(c + 1) minutes, to the second, and jitter that only
    /// lengthens. A million draws.
    #[test]
    fn delays_are_powers_of_minutes_for_all_bases_and_counts() {
        let (mut random, mut draws) = (StdRng::seed_from_u64(1), 0_u32);
        while draws < 1_000_000 {
            for base in 1..=100_u32 {
                for most in [0.0, 0.3, 1.0] {
                    let jitter = Jitter::Lengthening(most);
                    let largest_count = (1..=13).take_while(|count| {
                        let minutes = u64::from(base).pow(count + 1);
                        Duration::from_secs(minutes * 60).mul_f64(1.0 + most) <= LONGEST_DELAY
                    });
                    let Some(max_attempts) = largest_count.last() else { continue };
                    let options = PoisonRetryOptions {
                        max_attempts,
                        base,
                        jitter,
                        ..PoisonRetryOptions::default()
                    };
                    assert_eq!(options.check(), Ok(()), "{options:?}");
                    let strategy = options.strategy().unwrap();
                    for raised in 1..=max_attempts {
                        let least = Duration::from_secs(u64::from(base).pow(raised + 1) * 60);
                        let ledger = Ledger::restored(0, raised - 1, 0, 0, vec![]);
                        let failure = Failure::transient("refused");
                        let decision = strategy.decide(&ledger, &failure, &mut random);
                        let Verdict::Retry { after } = decision.verdict else {
                            panic!("{decision:?}")
                        };
                        assert_eq!(decision.retry_count, raised);
                        assert!(after >= least, "{after:?} is shorter than {least:?}");
                        let slack = Duration::from_nanos(1_000);
                        assert!(
                            after <= least.mul_f64(1.0 + most) + slack,
                            "{after:?} {options:?}"
                        );
                        draws += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn missing_settings_are_named_in_one_message() {
        let settings = [("storage_connection", false), ("poison_queue_name", false), ("to", true)];
        assert_eq!(
            MissingSettings::check(&settings).unwrap_err().to_string(),
            "missing required configuration settings: storage_connection, poison_queue_name"
        );
        assert_eq!(MissingSettings::check(&settings[2..]), Ok(()));
    }
}
