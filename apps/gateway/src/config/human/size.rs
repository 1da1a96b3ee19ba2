//! Sizes: `"16MiB"`, `"64 KiB"`, `"10GB"`.

use crate::config::InvalidValue;

/// Units with their bytes, the largest first; those of 1024 before those of 1000.
const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

const REMEDY: &str = r#"use a form such as "16MiB", "64KiB" or "10GB""#;

/// Parses a size in bytes: a whole number and a unit.
///
/// # Errors
///
/// [`InvalidValue`] for anything else, for example a number without a unit.
pub fn parse(text: &str) -> Result<u64, InvalidValue> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (count, unit) = (&trimmed[..end], trimmed[end..].trim_start());
    if unit.is_empty() && !count.is_empty() {
        let remedy = format!("use \"{count}MiB\", or \"{count}B\" for bytes");
        return Err(InvalidValue::new(format!("is {trimmed:?}, which has no unit"), remedy));
    }
    let bytes = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
    count
        .parse::<u64>()
        .ok()
        .zip(bytes)
        .and_then(|(count, bytes)| count.checked_mul(bytes))
        .ok_or_else(|| InvalidValue::not_a("size", text, REMEDY))
}

/// Formats a size exactly, in the largest unit that divides it: `"16MiB"`.
pub fn format(bytes: u64) -> String {
    let fits = |unit: &&(&str, u64)| bytes >= unit.1 && bytes.is_multiple_of(unit.1);
    match UNITS.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// Formats a size approximately, in units of 1024: `"1.4GiB"`.
pub fn rough(bytes: u64) -> String {
    let of_1024 = |unit: &&(&str, u64)| unit.1.is_power_of_two() && bytes >= unit.1;
    let Some((name, unit)) = UNITS.iter().find(of_1024) else { return format!("{bytes}B") };
    match bytes % unit / (unit / 10).max(1) {
        tenth @ 1..=9 if *unit > 1 && bytes / unit < 100 => {
            format!("{}.{tenth}{name}", bytes / unit)
        }
        _ => format!("{}{name}", bytes / unit),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, bytes: u64, formatted: &str) {
        assert_eq!(parse(text), Ok(bytes), "{text}");
        assert_eq!(format(bytes), formatted);
    }

    #[test]
    fn sizes_are_parsed() {
        check("16MiB", 16 << 20, "16MiB");
        check("64 KiB", 65_536, "64KiB");
        check("10GB", 10_000_000_000, "10GB");
        check("1kB", 1_000, "1kB");
        check("1KB", 1_000, "1kB");
        check("0B", 0, "0B");
        check("1025B", 1_025, "1025B");
        check("1024KiB", 1 << 20, "1MiB");
    }

    #[test]
    fn a_number_without_a_unit_is_rejected_with_a_hint() {
        let invalid = parse("16").unwrap_err();
        assert_eq!(
            invalid.to_string(),
            r#"is "16", which has no unit; use "16MiB", or "16B" for bytes"#
        );
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for text in ["", "MiB", "1.5GiB", "-1B", "16mb", "16M", "16Mb", "99999999TiB", "１MiB"] {
            let invalid = parse(text).unwrap_err();
            assert!(invalid.remedy.contains("16MiB"), "{text}: {invalid}");
        }
    }

    #[test]
    fn rough_sizes_have_a_sensible_precision() {
        for (bytes, expected) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1_024, "1KiB"),
            (1_536, "1.5KiB"),
            (150 << 20, "150MiB"),
            (u64::MAX, "16777215TiB"),
        ] {
            assert_eq!(rough(bytes), expected);
        }
    }

    proptest! {
        #[test]
        fn every_size_is_read_back_as_it_was(bytes: u64, shift in 0..64_u32) {
            let bytes = bytes >> shift << shift;
            prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
            prop_assert!(!rough(bytes).is_empty());
        }

        #[test]
        fn no_text_panics(text in "[0-9A-Za-z .]{0,24}|\\PC{0,24}") {
            if let Ok(bytes) = parse(&text) {
                prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
            }
        }
    }
}
