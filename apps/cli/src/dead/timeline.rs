//! The timeline of a message.

use std::time::Duration;

use bezoar_gateway::api_types::{DeadLetterDetails, FailedTry};
use jiff::Timestamp;

use crate::{
    humanize::{self, plural},
    table::{Lean, Table},
};

const COLUMNS: &[(&str, Lean)] = &[
    ("time", Lean::Left),
    ("after", Lean::Right),
    ("event", Lean::Left),
    ("took", Lean::Right),
    ("error", Lean::Left),
    ("error text", Lean::Left),
];

/// From its creation to the moment it was dead-lettered.
pub(super) fn timeline(letter: &DeadLetterDetails) -> Table {
    let mut lines = TimelineRows { table: Table::new(COLUMNS), last: None };
    lines.event(letter.summary.created_at, "created");
    lines.failed_tries(&letter.history);
    if letter.history.last().map_or(0, |last| last.generation) < letter.summary.replays {
        lines.note("replayed");
    }
    let why = &letter.reason_code;
    lines.event(letter.summary.dead_lettered_at, &format!("dead-lettered: {why}"));
    lines.table
}

/// The failed tries alone.
pub(super) fn tries(history: &[FailedTry]) -> Table {
    let mut lines = TimelineRows { table: Table::new(COLUMNS), last: None };
    lines.failed_tries(history);
    lines.table
}

/// What happened between two tries, as far as it is known.
fn between(before: Option<&FailedTry>, failed: &FailedTry) -> Option<String> {
    let (generation, attempt) = before.map_or((0, 0), |it| (it.generation, it.attempt));
    if failed.generation > generation {
        return Some("replayed".to_owned());
    }
    let missing = failed.attempt.saturating_sub(attempt + 1);
    (missing > 0).then(|| format!("… {} not recorded", plural(missing, "attempt")))
}

fn error_text(failed: &FailedTry) -> String {
    match failed.detail_bytes {
        0 => humanize::NONE.to_owned(),
        bytes => format!("{}, not shown", plural(bytes, "byte")),
    }
}

struct TimelineRows {
    table: Table,
    last: Option<Timestamp>,
}

impl TimelineRows {
    fn event(&mut self, at: Timestamp, what: &str) {
        let after = self.after(at);
        self.table.push([
            humanize::moment(at).into(),
            after.into(),
            what.into(),
            "".into(),
            "".into(),
            "".into(),
        ]);
    }

    fn note(&mut self, what: &str) {
        self.table.push(["".into(), "".into(), what.into(), "".into(), "".into(), "".into()]);
    }

    fn failed_tries(&mut self, history: &[FailedTry]) {
        let mut before: Option<&FailedTry> = None;
        for failed in history {
            if let Some(words) = between(before, failed) {
                self.note(&words);
            }
            self.failed_try(failed);
            before = Some(failed);
        }
    }

    fn failed_try(&mut self, failed: &FailedTry) {
        let after = self.after(failed.started_at);
        let what = match failed.r#try {
            0 | 1 => format!("attempt {}", failed.attempt),
            number => format!("attempt {}, try {number}", failed.attempt),
        };
        self.table.push([
            humanize::moment(failed.started_at).into(),
            after.into(),
            what.into(),
            humanize::duration(Duration::from_millis(failed.duration_ms)).into(),
            format!("{} ({})", failed.code, failed.kind).into(),
            error_text(failed).into(),
        ]);
    }

    /// The time since the previous line.
    fn after(&mut self, now: Timestamp) -> String {
        let since = self.last.replace(now);
        let passed = since.map(|since| now.duration_since(since));
        let passed = passed.and_then(|passed| Duration::try_from(passed).ok());
        passed.map(|passed| format!("+ {}", humanize::duration(passed))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn failed_try(generation: u64, attempt: u64, number: u64, at: &str) -> Value {
        json!({
            "generation": generation, "attempt": attempt, "try": number, "duration_ms": 250,
            "started_at": format!("2026-11-14T{at}Z"), "kind": "transient", "code": "http-503",
            "detail_bytes": 12,
        })
    }

    #[test]
    fn attempts_are_listed_in_order_with_gaps_and_replays() {
        let letter: DeadLetterDetails = serde_json::from_value(json!({
            "id": "dl_e4295pe0", "queue": "lab", "message_id": "m-1", "type": "lab.result",
            "reason": "3 retries used up", "reason_code": "exhausted", "replays": 1,
            "dead_lettered_at": "2026-11-14T12:00:01Z", "created_at": "2026-11-14T09:00:00Z",
            "history": [
                failed_try(0, 1, 1, "09:00:00.100"), failed_try(0, 1, 2, "09:00:01.600"),
                failed_try(0, 4, 1, "09:03:01.600"), failed_try(1, 1, 1, "12:00:00"),
            ],
        }))
        .unwrap();
        let plain = anstream::adapter::strip_str(&timeline(&letter).render()).to_string();
        let expected = "\
time                          after  event                        took  error                 error text
2026-11-14 09:00:00 UTC              created
2026-11-14 09:00:00 UTC    + 100 ms  attempt 1                  250 ms  http-503 (transient)  12 bytes, not shown
2026-11-14 09:00:01 UTC     + 1.5 s  attempt 1, try 2           250 ms  http-503 (transient)  12 bytes, not shown
                                     … 2 attempts not recorded
2026-11-14 09:03:01 UTC       + 3 m  attempt 4                  250 ms  http-503 (transient)  12 bytes, not shown
                                     replayed
2026-11-14 12:00:00 UTC  + 2 h 56 m  attempt 1                  250 ms  http-503 (transient)  12 bytes, not shown
2026-11-14 12:00:01 UTC     + 1.0 s  dead-lettered: exhausted
";
        assert_eq!(plain, expected);
    }
}
