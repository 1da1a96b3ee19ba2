//! Parses durations in arguments: `5s`, `250ms`, `1h30m`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses whole numbers, each with a unit.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    let (mut millis, mut rest) = (0_u64, text.trim());
    loop {
        let (part, after) = part(rest).ok_or("expected a duration such as 5s, 250ms or 1h30m")?;
        millis = millis.checked_add(part).ok_or("the duration is too long")?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
    }
}

/// The milliseconds of the first part, and the rest.
fn part(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some((number.parse::<u64>().ok()?.checked_mul(*millis)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        for (text, millis) in [
            ("5s", 5_000),
            ("250ms", 250),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("0s", 0),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            " ",
            "5",
            "s",
            "1.5h",
            "-1s",
            "5 s",
            "5µs",
            "1h30",
            "99999999999999999999s",
            "999999999999999999d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
