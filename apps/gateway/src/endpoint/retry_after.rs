//! Parses `Retry-After`.

use std::time::Duration;

use http::{HeaderMap, header::RETRY_AFTER};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

/// The wait that `Retry-After` asks for, in seconds or as a date, limited to `most`. `None` if it cannot be parsed or is
/// 0.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp, most: Duration) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = seconds(text).or_else(|| date(text, now))?.min(most);
    (!asked.is_zero()).then_some(asked)
}

/// A number that does not fit means a very long wait.
fn seconds(text: &str) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

/// The date format of RFC 9110; its two obsolete forms are not supported.
fn date(text: &str, now: Timestamp) -> Option<Duration> {
    let at = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn read(bytes: &[u8]) -> Option<Duration> {
        let now = "1994-11-06T08:49:37Z".parse().unwrap();
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_bytes(bytes).ok()?)]);
        retry_after(&headers, now, HOUR)
    }

    fn check(text: &str, seconds: u64) {
        let expected = (seconds > 0).then(|| Duration::from_secs(seconds));
        assert_eq!(read(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn seconds_and_dates_are_parsed_and_limited() {
        check("7", 7);
        check("0", 0);
        check("3601", 3_600);
        check("99999999999999999999999999", 3_600);
        check("Sun, 06 Nov 1994 08:50:37 GMT", 60);
        check("Sun, 06 Nov 1994 08:49:37 GMT", 0);
        check("Sun, 06 Nov 1994 08:00:00 GMT", 0);
        check("Thu, 31 Dec 9998 23:59:59 GMT", 3_600);
    }

    #[test]
    fn invalid_values_are_ignored() {
        for text in ["", "-1", "1.5", "soon", "+7", "7 s", "Sun Nov  6 08:49:37 1994"] {
            check(text, 0);
        }
        assert_eq!(read(b"\xff\xfe"), None);
    }

    proptest! {
        #[test]
        fn no_value_exceeds_the_limit(bytes: Vec<u8>) {
            prop_assert!(read(&bytes).unwrap_or_default() <= HOUR);
        }
    }
}
