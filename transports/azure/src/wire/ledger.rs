//! A ledger as JSON that other programs can read.

use std::time::Duration;

use bezoar_core::{
    Code, Detail, FailedTry, FailureKind, Ledger, UncountedSummary, millis, to_millis,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Counts {
    #[serde(skip_serializing_if = "is_zero")]
    acquired: u32,
    #[serde(skip_serializing_if = "is_zero")]
    failed: u32,
    #[serde(skip_serializing_if = "is_zero")]
    released: u32,
    #[serde(skip_serializing_if = "is_zero")]
    replayed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncounted: Option<Uncounted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Try>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
struct Uncounted {
    count: u32,
    suspected: u32,
    first: i64,
    last: i64,
    waited_ms: i64,
    code: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Try {
    generation: u32,
    attempt: u32,
    r#try: u32,
    started_at: i64,
    duration_ms: i64,
    kind: String,
    code: String,
    detail: String,
}

/// The JSON of a ledger; empty if there is nothing to say.
pub(crate) fn write(ledger: &Ledger) -> String {
    if *ledger == Ledger::default() {
        return String::new();
    }
    let counts = Counts {
        acquired: ledger.acquired,
        failed: ledger.failed,
        released: ledger.released,
        replayed: ledger.replayed,
        replay: ledger.replay.map(|it| it.to_string()),
        uncounted: ledger.uncounted.as_ref().map(Uncounted::from),
        history: ledger.history().iter().map(Try::from).collect(),
    };
    super::json(&counts)
}

/// As much of a ledger as can be read: damaged details must not stop a queue.
pub(crate) fn read(json: &str) -> Ledger {
    let counts = serde_json::from_str(json).unwrap_or_else(|_| salvaged(json));
    let history = counts.history.into_iter().map(FailedTry::from).collect();
    let mut ledger =
        Ledger::restored(counts.acquired, counts.failed, counts.released, counts.replayed, history);
    ledger.replay = counts.replay.and_then(|it| it.parse().ok());
    ledger.uncounted = counts.uncounted.map(UncountedSummary::from);
    ledger
}

/// The counts of a ledger of which another part cannot be read.
fn salvaged(json: &str) -> Counts {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let count = |name: &str| {
        value[name].as_u64().map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
    };
    Counts {
        acquired: count("acquired"),
        failed: count("failed"),
        released: count("released"),
        replayed: count("replayed"),
        ..Counts::default()
    }
}

impl From<&FailedTry> for Try {
    fn from(it: &FailedTry) -> Self {
        Self {
            generation: it.generation,
            attempt: it.attempt,
            r#try: it.try_number,
            started_at: it.started_at.as_millisecond(),
            duration_ms: to_millis(it.duration),
            kind: it.kind.as_str().to_owned(),
            code: it.code.as_str().to_owned(),
            detail: it.detail.reveal().clone(),
        }
    }
}

impl From<Try> for FailedTry {
    fn from(it: Try) -> Self {
        Self {
            generation: it.generation,
            attempt: it.attempt,
            try_number: it.r#try,
            started_at: millis(it.started_at),
            duration: duration(it.duration_ms),
            kind: it.kind.parse().unwrap_or(FailureKind::Unknown),
            code: Code::new(it.code).unwrap_or(Code::UNKNOWN),
            detail: Detail::truncated(it.detail),
        }
    }
}

impl From<&UncountedSummary> for Uncounted {
    fn from(it: &UncountedSummary) -> Self {
        Self {
            count: it.count,
            suspected: it.suspected,
            first: it.first.as_millisecond(),
            last: it.last.as_millisecond(),
            waited_ms: to_millis(it.waited),
            code: it.code.as_str().to_owned(),
        }
    }
}

impl From<Uncounted> for UncountedSummary {
    fn from(it: Uncounted) -> Self {
        Self {
            count: it.count,
            suspected: it.suspected,
            first: millis(it.first),
            last: millis(it.last),
            waited: duration(it.waited_ms),
            code: Code::new(it.code).unwrap_or(Code::UNKNOWN),
        }
    }
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(millis.max(0).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use bezoar_core::{Failure, UncountedFailure};

    use super::*;

    #[test]
    fn a_ledger_is_restored() {
        let failure = Failure::transient("no \"room\"\0\n🏥\u{ffff}");
        let mut ledger = Ledger::restored(7, 1, 2, 3, vec![]);
        ledger.fail(vec![FailedTry::new(millis(-5), Duration::from_millis(7), &failure)]);
        let (code, waited) = (Code::TIMEOUT, Duration::from_secs(2));
        let at = millis(1_000);
        ledger.fail_uncounted(&UncountedFailure { at, code, suspected: true, waited });
        assert_eq!(read(&write(&ledger)), ledger);
        assert_eq!(write(&Ledger::default()), "");
        assert!(!write(&ledger).contains('\u{ffff}'), "XML has no such character");
    }

    #[test]
    fn a_damaged_ledger_is_read_as_far_as_possible() {
        for (json, failed) in [
            ("no JSON", 0),
            ("[]", 0),
            (r#"{"failed": -1}"#, 0),
            (r#"{"failed": 3, "history": 7}"#, 3),
            (r#"{"failed": 99999999999}"#, u32::MAX),
            (r#"{"failed": "3"}"#, 0),
        ] {
            assert_eq!(read(json).failed, failed, "{json}");
        }
    }
}
