//! Numbers, ages and times as people write them. Unknown is "?", never 0.

use std::time::Duration;

use bezoar_gateway::api_types::MatchCount;
use jiff::Timestamp;

/// Shown for unknown values.
pub(crate) const UNKNOWN: &str = "?";
/// Shown for absent values.
pub(crate) const NONE: &str = "–";

/// `1,234`
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.char_indices() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1,234`, or `?` if unknown.
pub(crate) fn count_or_unknown(known: Option<u64>) -> String {
    known.map_or(UNKNOWN.to_owned(), count)
}

/// A count that may be a lower bound: `12,345`, `at least 50,000`.
pub(crate) fn at_least(matching: MatchCount) -> String {
    let about = if matching.exact { "" } else { "at least " };
    format!("{about}{}", count(matching.count))
}

/// Units with their seconds, largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// `3 m`: the largest unit only.
pub(crate) fn age(age: Duration) -> String {
    units(age.as_secs(), 1)
}

/// Up to `most` units, starting with the largest that is not 0.
fn units(seconds: u64, most: usize) -> String {
    let first = UNITS.iter().position(|(_, unit)| seconds >= *unit).unwrap_or(UNITS.len() - 1);
    let mut rest = seconds;
    let parts = UNITS.iter().skip(first).take(most).filter_map(|(name, unit)| {
        let number = rest / unit;
        rest %= unit;
        (number > 0).then(|| format!("{} {name}", count(number)))
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// The age of the oldest of `of` messages; absent if there are none.
pub(crate) fn oldest(of: Option<u64>, seconds: Option<f64>) -> String {
    match (of, seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())) {
        (_, Some(oldest)) => age(oldest),
        (Some(0), None) => NONE.to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// `12.5`: one decimal below 100.
pub(crate) fn rate(each_second: f64) -> String {
    match each_second {
        rate if !rate.is_finite() || rate < 0.0 => UNKNOWN.to_owned(),
        0.0 => "0".to_owned(),
        rate if rate < 99.95 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// `250 ms`, `1.5 s`, `2 h 56 m`
pub(crate) fn duration(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis @ ..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => units(duration.as_secs(), 2),
    }
}

/// `1 line`, `2 lines`
pub(crate) fn plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// How long ago a time was; 0 if it is in the future.
pub(crate) fn age_of(at: Timestamp, now: Timestamp) -> String {
    age(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

/// `2026-11-14 09:26:53 UTC`
pub(crate) fn moment(at: Timestamp) -> String {
    at.strftime("%F %T UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(number), expected);
        }
        assert_eq!(count_or_unknown(None), "?");
        assert_eq!(at_least(MatchCount { count: 12_345, exact: true }), "12,345");
        assert_eq!(at_least(MatchCount { count: 50_000, exact: false }), "at least 50,000");
        assert_eq!(plural(1, "line"), "1 line");
        assert_eq!(plural(1_000, "line"), "1,000 lines");
    }

    #[test]
    fn ages_have_one_unit() {
        for (seconds, expected) in
            [(0, "0 s"), (59, "59 s"), (60, "1 m"), (200, "3 m"), (7_200, "2 h"), (86_400, "1 d")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn unknown_is_never_0() {
        assert_eq!(oldest(Some(3), Some(200.7)), "3 m");
        assert_eq!(oldest(Some(0), None), "–");
        assert_eq!(oldest(Some(3), None), "?");
        assert_eq!(oldest(None, None), "?");
        assert_eq!(oldest(None, Some(-1.0)), "?");
    }

    #[test]
    fn rates_and_durations_have_a_sensible_precision() {
        for (each_second, expected) in [
            (0.0, "0"),
            (0.04, "0.0"),
            (12.46, "12.5"),
            (99.96, "100"),
            (12_345.6, "12,346"),
            (-1.0, "?"),
        ] {
            assert_eq!(rate(each_second), expected);
        }
        for (millis, expected) in [
            (7, "7 ms"),
            (1_550, "1.5 s"),
            (61_000, "1 m 1 s"),
            (10_562_000, "2 h 56 m"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn times_are_formatted() {
        let now = "2026-11-14T12:00:00Z".parse().unwrap();
        let at = |text: &str| text.parse().unwrap();
        assert_eq!(age_of(at("2026-11-14T09:59:59.999Z"), now), "2 h");
        assert_eq!(age_of(at("2026-11-14T12:00:05Z"), now), "0 s");
        assert_eq!(moment(at("2026-11-14T09:26:53.123Z")), "2026-11-14 09:26:53 UTC");
    }
}
