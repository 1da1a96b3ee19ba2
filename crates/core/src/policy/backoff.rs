//! How long to wait: delays that grow, and jitter.

use std::time::Duration;

use rand::Rng;

use crate::Invalid;

/// How delays grow from retry to retry.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Backoff {
    /// The same delay each time.
    Fixed {
        /// The delay.
        delay: Duration,
    },
    /// `first`, `first + step`, `first + 2 × step` …
    Linear {
        /// The delay before the first retry.
        first: Duration,
        /// The time added for each further retry.
        step: Duration,
    },
    /// `first`, `first × multiplier`, `first × multiplier²` …
    Exponential {
        /// The delay before the first retry.
        first: Duration,
        /// The factor for each further retry; at least 1.
        multiplier: f64,
    },
}

impl Backoff {
    /// base² minutes, base³ minutes …: 4, 8, 16 minutes for base 2.
    pub fn powers_of_minutes(base: u32) -> Self {
        let minutes = u64::from(base).saturating_mul(u64::from(base));
        Self::Exponential {
            first: Duration::from_secs(minutes.saturating_mul(60)),
            multiplier: f64::from(base),
        }
    }

    /// The delay before retry number `retry` (from 1), in seconds; infinite if it overflows.
    pub(super) fn seconds(self, retry: u32) -> f64 {
        let before = f64::from(retry.saturating_sub(1));
        match self {
            Self::Fixed { delay } => delay.as_secs_f64(),
            Self::Linear { first, step } => first.as_secs_f64() + step.as_secs_f64() * before,
            Self::Exponential { first, .. } if first.is_zero() => 0.0,
            Self::Exponential { first, multiplier } => {
                first.as_secs_f64() * multiplier.powf(before)
            }
        }
    }

    pub(super) fn check(self) -> Result<(), Invalid> {
        match self {
            Self::Exponential { multiplier, .. } if !(1.0..=1000.0).contains(&multiplier) => Err(
                Invalid::new("multiplier", format!("is {multiplier}, from 1 to 1000 is accepted")),
            ),
            _ => Ok(()),
        }
    }
}

/// Random changes to a delay, so that messages that failed together are not retried together.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// No change.
    None,
    /// Lengthens or shortens the delay by up to this factor (0 to 1).
    Symmetric(f64),
    /// Lengthens the delay by up to this factor (0 to 1).
    Lengthening(f64),
    /// Any delay from zero to the whole delay.
    Full,
}

impl Jitter {
    /// The factor for a random number in [0, 1).
    pub(super) fn factor(self, chance: f64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Symmetric(most) => 1.0 + most * (2.0 * chance - 1.0),
            Self::Lengthening(most) => 1.0 + most * chance,
            Self::Full => chance,
        }
    }

    /// The largest possible factor.
    pub(super) fn largest(self) -> f64 {
        match self {
            Self::None | Self::Full => 1.0,
            Self::Symmetric(most) | Self::Lengthening(most) => 1.0 + most,
        }
    }

    pub(super) fn check(self) -> Result<(), Invalid> {
        match self {
            Self::Symmetric(most) | Self::Lengthening(most) if !(0.0..=1.0).contains(&most) => {
                Err(Invalid::new("jitter", format!("is {most}, from 0 to 1 is accepted")))
            }
            _ => Ok(()),
        }
    }
}

/// A random number in [0, 1) with the 53 bits that a float holds.
pub(super) fn chance(random: &mut dyn Rng) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let bits = (random.next_u64() >> 11) as f64;
    bits / 9_007_199_254_740_992.0
}
