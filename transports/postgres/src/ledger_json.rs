//! The part of a ledger that few messages have, as JSON: the failed tries, and the summary of uncounted failures.
//!
//! JSON because it escapes what PostgreSQL's texts cannot hold, and because nobody searches in it.

use std::time::Duration;

use bezoar_core::{
    Code, Detail, FailedTry, FailureKind, Ledger, UncountedSummary, millis, to_millis,
};
use serde_json::{Value, json};

/// The details of a ledger; `None` if it has only counters.
pub(crate) fn write(ledger: &Ledger) -> Option<String> {
    if ledger.history().is_empty() && ledger.uncounted.is_none() {
        return None;
    }
    let tries: Vec<_> = ledger.history().iter().map(write_try).collect();
    let uncounted = ledger.uncounted.as_ref().map(|it| {
        json!({
            "generation": ledger.replayed,
            "count": it.count,
            "suspected": it.suspected,
            "first": it.first.as_millisecond(),
            "last": it.last.as_millisecond(),
            "waited_ms": to_millis(it.waited),
            "code": it.code.as_str(),
        })
    });
    Some(json!({ "tries": tries, "uncounted": uncounted }).to_string())
}

fn write_try(failed: &FailedTry) -> Value {
    json!({
        "generation": failed.generation,
        "attempt": failed.attempt,
        "try": failed.try_number,
        "at": failed.started_at.as_millisecond(),
        "duration_ms": to_millis(failed.duration),
        "kind": failed.kind.as_str(),
        "code": failed.code.as_str(),
        "detail": failed.detail.reveal(),
    })
}

/// The tries and the summary of generation `replayed`. What cannot be read counts as absent: a wrong history must not
/// stop a message.
pub(crate) fn read(json: &str, replayed: u32) -> (Vec<FailedTry>, Option<UncountedSummary>) {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let tries = value["tries"].as_array().into_iter().flatten().map(read_try).collect();
    let uncounted = &value["uncounted"];
    let current = uncounted.is_object() && number(&uncounted["generation"]) == replayed;
    let uncounted = current.then(|| UncountedSummary {
        count: number(&uncounted["count"]),
        suspected: number(&uncounted["suspected"]),
        first: millis(uncounted["first"].as_i64().unwrap_or_default()),
        last: millis(uncounted["last"].as_i64().unwrap_or_default()),
        waited: duration(&uncounted["waited_ms"]),
        code: code(&uncounted["code"]),
    });
    (tries, uncounted)
}

fn read_try(value: &Value) -> FailedTry {
    FailedTry {
        generation: number(&value["generation"]),
        attempt: number(&value["attempt"]),
        try_number: number(&value["try"]),
        started_at: millis(value["at"].as_i64().unwrap_or_default()),
        duration: duration(&value["duration_ms"]),
        kind: value["kind"].as_str().unwrap_or_default().parse().unwrap_or(FailureKind::Unknown),
        code: code(&value["code"]),
        detail: Detail::truncated(value["detail"].as_str().unwrap_or_default().to_owned()),
    }
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or_default()
}

fn duration(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or_default())
}

fn code(value: &Value) -> Code {
    Code::new(value.as_str().unwrap_or_default()).unwrap_or(Code::UNKNOWN)
}
