//! A dead letter, as the gateway tells of it.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::words;

/// What is known at a glance.
#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) id: i64,
    pub(super) queue: String,
    pub(super) message_id: String,
    pub(super) r#type: String,
    pub(super) correlation_id: Option<String>,
    pub(super) reason: Reason,
    pub(super) error: Option<Error>,
    pub(super) attempts: Option<u64>,
    pub(super) replayed: Option<u64>,
    pub(super) body_bytes: Option<u64>,
    pub(super) at: String,
}

/// Why it was set aside.
#[derive(Debug, Deserialize)]
pub(super) struct Reason {
    pub(super) code: String,
    pub(super) text: String,
}

/// What the last attempt met with.
#[derive(Debug, Deserialize)]
pub(super) struct Error {
    pub(super) kind: String,
    pub(super) code: String,
}

/// All that may be known without looking at the body.
#[derive(Debug, Deserialize)]
pub(super) struct Letter {
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) time: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) causation_id: Option<String>,
    pub(super) acquired: Option<u64>,
    pub(super) released: Option<u64>,
    #[serde(default)]
    pub(super) history: Vec<Attempt>,
    #[serde(default)]
    pub(super) headers: Vec<Header>,
}

/// One failed try.
#[derive(Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) generation: u64,
    pub(super) number: u64,
    pub(super) r#try: u64,
    pub(super) at: String,
    pub(super) duration_ms: u64,
    pub(super) kind: String,
    pub(super) code: String,
    pub(super) detail_bytes: u64,
}

/// A header without its value.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// How long ago that was; not known if it is no time, nothing if it lies ahead.
pub(super) fn age(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => words::age(Duration::try_from(now.duration_since(at)).unwrap_or_default()),
        Err(_) => words::UNKNOWN.to_owned(),
    }
}

/// `2026-11-14 09:26:53 UTC`, or as it came if it is no time.
pub(super) fn moment(at: &str) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => at.strftime("%F %T UTC").to_string(),
        Err(_) => at.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_people_read_them() {
        let now = "2026-11-14T12:00:00Z".parse().unwrap();
        assert_eq!(age("2026-11-14T09:59:59.999Z", now), "2 h");
        assert_eq!(age("2026-11-14T12:00:05Z", now), "0 s");
        assert_eq!(age("yesterday", now), "?");
        assert_eq!(moment("2026-11-14T09:26:53.123Z"), "2026-11-14 09:26:53 UTC");
        assert_eq!(moment("yesterday"), "yesterday");
    }
}
