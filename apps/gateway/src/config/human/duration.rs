//! Durations: `"30s"`, `"5m"`, `"1h30m"`, `"250ms"`.

use std::time::Duration;

use crate::config::InvalidValue;

const SECOND: u128 = 1_000_000_000;

/// Units with their nanoseconds, the largest first.
static UNITS: [(&str, u128); 7] = [
    ("d", 24 * 60 * 60 * SECOND),
    ("h", 60 * 60 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", SECOND / 1_000),
    ("us", SECOND / 1_000_000),
    ("ns", 1),
];

/// Units that may come next.
type Units = &'static [(&'static str, u128)];

const REMEDY: &str = r#"use a form such as "30s", "5m", "1h30m" or "250ms""#;

/// Parses a duration: whole numbers, each with a unit, largest unit first.
///
/// # Errors
///
/// [`InvalidValue`] for anything else, for example a number without a unit.
pub fn parse(text: &str) -> Result<Duration, InvalidValue> {
    let mut rest = text.trim();
    if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()) {
        let remedy = format!("use \"{rest}s\" for seconds or \"{rest}ms\" for milliseconds");
        return Err(InvalidValue::new(format!("is {rest:?}, which has no unit"), remedy));
    }
    let (mut nanos, mut units): (u128, Units) = (0, &UNITS);
    loop {
        let (part, smaller, after) = part(rest, units).ok_or_else(|| not_a_duration(text))?;
        nanos = nanos.checked_add(part).ok_or_else(|| not_a_duration(text))?;
        (units, rest) = (smaller, after.trim_start());
        if rest.is_empty() {
            return from_nanos(nanos).ok_or_else(|| not_a_duration(text));
        }
    }
}

/// The nanoseconds of the first part of `text`, the units that may follow it, and the rest.
fn part(text: &str, units: Units) -> Option<(u128, Units, &str)> {
    let (count, rest) = split(text, |c| !c.is_ascii_digit());
    let (unit, rest) = split(rest.trim_start(), |c| !c.is_ascii_alphabetic());
    let position = units.iter().position(|(name, _)| *name == unit)?;
    let nanos = count.parse::<u64>().ok()?;
    Some((u128::from(nanos).checked_mul(units[position].1)?, &units[position + 1..], rest))
}

fn split(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let seconds = u64::try_from(nanos / SECOND).ok()?;
    let rest = u32::try_from(nanos % SECOND).ok()?;
    Some(Duration::new(seconds, rest))
}

fn not_a_duration(text: &str) -> InvalidValue {
    InvalidValue::not_a("duration", text, REMEDY)
}

/// Formats a duration exactly, so that [`parse`] returns the same: `"1h30m"`.
pub fn format(duration: Duration) -> String {
    let text: String = parts(duration).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn parts(duration: Duration) -> impl Iterator<Item = (u128, &'static str)> {
    let mut rest = duration.as_nanos();
    UNITS.iter().filter_map(move |(name, unit)| {
        let count = rest / unit;
        rest %= unit;
        (count > 0).then_some((count, *name))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, millis: u64, formatted: &str) {
        assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        assert_eq!(format(Duration::from_millis(millis)), formatted);
    }

    #[test]
    fn durations_are_parsed() {
        check("30s", 30_000, "30s");
        check("5m", 300_000, "5m");
        check("1h30m", 5_400_000, "1h30m");
        check(" 1h 30m ", 5_400_000, "1h30m");
        check("250ms", 250, "250ms");
        check("0s", 0, "0s");
        check("90s", 90_000, "1m30s");
        check("7d", 604_800_000, "7d");
        check("1d1h1m1s1ms", 90_061_001, "1d1h1m1s1ms");
        check("10 s", 10_000, "10s");
    }

    #[test]
    fn a_number_without_a_unit_is_rejected_with_a_hint() {
        let invalid = parse("30").unwrap_err();
        assert_eq!(
            invalid.to_string(),
            r#"is "30", which has no unit; use "30s" for seconds or "30ms" for milliseconds"#
        );
    }

    #[test]
    fn invalid_durations_are_rejected() {
        let huge = "99999999999999999999s";
        for text in
            ["", " ", "s", "30 minutes", "1.5h", "-1s", "30m1h", "1s1s", "1h30", huge, "5µs", "５s"]
        {
            let invalid = parse(text).unwrap_err();
            assert!(invalid.remedy.contains("1h30m"), "{text}: {invalid}");
        }
    }

    proptest! {
        #[test]
        fn every_duration_is_read_back_as_it_was(seconds: u64, nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-z .µ]{0,24}|\\PC{0,24}") {
            if let Ok(duration) = parse(&text) {
                prop_assert_eq!(parse(&format(duration)), Ok(duration));
            }
        }
    }
}
