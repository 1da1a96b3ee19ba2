//! The failed tries of a message as one header: JSON that other programs can read.

use std::{borrow::Cow, time::Duration};

use bezoar_core::{Code, Detail, FailedTry, FailureKind, millis, to_millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One failed try.
#[derive(Serialize, Deserialize)]
struct Try<'a> {
    generation: u32,
    attempt: u32,
    r#try: u32,
    started_at: i64,
    duration_ms: i64,
    kind: Cow<'a, str>,
    code: Cow<'a, str>,
    detail: Cow<'a, str>,
}

pub(crate) fn write(history: &[FailedTry]) -> String {
    let tries: Vec<_> = history.iter().map(Try::from).collect();
    serde_json::to_string(&tries).expect("numbers and texts can be written")
}

/// As much as can be parsed: a damaged header must not stop a queue.
pub(crate) fn read(text: &str) -> Vec<FailedTry> {
    let tries = serde_json::from_str(text).unwrap_or_else(|_| salvaged(text));
    tries.into_iter().map(FailedTry::from).collect()
}

fn salvaged(text: &str) -> Vec<Try<'static>> {
    let Ok(Value::Array(tries)) = serde_json::from_str(text) else { return Vec::new() };
    let salvage = |it: &Value| {
        let number = |name: &str| it[name].as_u64().unwrap_or(0);
        let count = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
        let text = |name: &str| Cow::Owned(it[name].as_str().unwrap_or_default().to_owned());
        Try {
            generation: count("generation"),
            attempt: count("attempt"),
            r#try: count("try"),
            started_at: it["started_at"].as_i64().unwrap_or(0),
            duration_ms: it["duration_ms"].as_i64().unwrap_or(0),
            kind: text("kind"),
            code: text("code"),
            detail: text("detail"),
        }
    };
    tries.iter().map(salvage).collect()
}

impl<'a> From<&'a FailedTry> for Try<'a> {
    fn from(it: &'a FailedTry) -> Self {
        Self {
            generation: it.generation,
            attempt: it.attempt,
            r#try: it.try_number,
            started_at: it.started_at.as_millisecond(),
            duration_ms: to_millis(it.duration),
            kind: it.kind.as_str().into(),
            code: it.code.as_str().into(),
            detail: it.detail.reveal().into(),
        }
    }
}

impl From<Try<'_>> for FailedTry {
    fn from(it: Try<'_>) -> Self {
        Self {
            generation: it.generation,
            attempt: it.attempt,
            try_number: it.r#try,
            started_at: millis(it.started_at),
            duration: Duration::from_millis(it.duration_ms.max(0).cast_unsigned()),
            kind: it.kind.parse().unwrap_or(FailureKind::Unknown),
            code: Code::new(&*it.code).unwrap_or(Code::UNKNOWN),
            detail: Detail::truncated(it.detail.into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::Failure;

    use super::*;

    #[test]
    fn a_history_is_restored() {
        let failure = Failure::transient("no \"room\"\0\n🏥");
        let tries = [FailedTry::new(millis(-5), Duration::from_millis(7), &failure)];
        assert_eq!(read(&write(&tries)), tries);
    }

    #[test]
    fn a_damaged_history_is_read_as_far_as_possible() {
        assert_eq!(read("no JSON"), []);
        assert_eq!(read("{}"), []);
        assert_eq!(read(r#"[{"attempt": -1, "kind": 7}]"#)[0].attempt, 0);
    }
}
