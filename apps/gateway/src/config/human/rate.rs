//! Rates: `"100/s"`, `"5/m"`.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use crate::config::InvalidValue;

/// A number per time unit: `"100/s"`, `"5/m"`, `"1000/h"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: NonZeroU32,
    unit: (&'static str, Duration),
}

const UNITS: [(&str, Duration); 3] = [
    ("s", Duration::from_secs(1)),
    ("m", Duration::from_secs(60)),
    ("h", Duration::from_secs(60 * 60)),
];

impl Rate {
    /// The number.
    pub const fn count(&self) -> NonZeroU32 {
        self.count
    }

    /// The time unit.
    pub const fn per(&self) -> Duration {
        self.unit.1
    }
}

impl FromStr for Rate {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let not_a_rate = || {
            InvalidValue::not_a(
                "rate",
                text,
                r#"use a form such as "100/s", "5/m" or "1000/h", at least 1"#,
            )
        };
        let (count, unit) = text.split_once('/').ok_or_else(not_a_rate)?;
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(not_a_rate)?;
        let digits = count.trim();
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(not_a_rate());
        }
        Ok(Self { count: digits.parse().map_err(|_| not_a_rate())?, unit: *unit })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.unit.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        for (text, count, seconds, shown) in [
            ("100/s", 100, 1, "100/s"),
            ("5 / m", 5, 60, "5/m"),
            ("1000/h", 1_000, 3_600, "1000/h"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.count().get(), rate.per().as_secs()), (count, seconds));
            assert_eq!(rate.to_string(), shown);
        }
    }

    #[test]
    fn invalid_rates_are_rejected() {
        for text in
            ["", "100", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "5/min", "5/s/s", "9999999999/s"]
        {
            let invalid = text.parse::<Rate>().unwrap_err();
            assert!(invalid.remedy.contains("100/s"), "{text}: {invalid}");
        }
    }
}
