//! What happened to a message, in order.

use std::time::Duration;

use jiff::Timestamp;

use super::letter::{Attempt, Letter};
use crate::{
    table::{Lean, Table},
    words::{self, plural},
};

const COLUMNS: &[(&str, Lean)] = &[
    ("when", Lean::Left),
    ("after", Lean::Right),
    ("what", Lean::Left),
    ("took", Lean::Right),
    ("error", Lean::Left),
    ("error text", Lean::Left),
];

/// From the day that it was made to the day that it was set aside.
pub(super) fn timeline(letter: &Letter) -> Table {
    let mut lines = Lines { table: Table::new(COLUMNS), last: None };
    if let Some(made) = &letter.time {
        lines.event(made, "made");
    }
    let mut before: Option<&Attempt> = None;
    for attempt in &letter.history {
        if let Some(words) = between(before, attempt) {
            lines.note(&words);
        }
        lines.attempt(attempt);
        before = Some(attempt);
    }
    let replayed = letter.summary.replayed.unwrap_or_default();
    if before.map_or(0, |last| last.generation) < replayed {
        lines.note("replayed");
    }
    let why = letter.reason_code.as_ref().unwrap_or(&letter.summary.reason);
    lines.event(&letter.summary.at, &format!("set aside: {why}"));
    lines.table
}

/// What lies between two tries and has no time of its own.
fn between(before: Option<&Attempt>, attempt: &Attempt) -> Option<String> {
    let (generation, number) = before.map_or((0, 0), |it| (it.generation, it.number));
    if attempt.generation > generation {
        return Some("replayed".to_owned());
    }
    let missing = attempt.number.saturating_sub(number + 1);
    (missing > 0).then(|| format!("… {} not on record", plural(missing, "attempt")))
}

fn error_text(attempt: &Attempt) -> String {
    match attempt.detail_bytes {
        0 => words::NONE.to_owned(),
        bytes => format!("{}, not shown", plural(bytes, "byte")),
    }
}

struct Lines {
    table: Table,
    last: Option<Timestamp>,
}

impl Lines {
    fn event(&mut self, at: &str, what: &str) {
        let after = self.after(at);
        self.table.push([
            words::moment(at).into(),
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

    fn attempt(&mut self, attempt: &Attempt) {
        let after = self.after(&attempt.at);
        let what = match attempt.r#try {
            0 | 1 => format!("attempt {}", attempt.number),
            tried => format!("attempt {}, try {tried}", attempt.number),
        };
        self.table.push([
            words::moment(&attempt.at).into(),
            after.into(),
            what.into(),
            words::duration(Duration::from_millis(attempt.duration_ms)).into(),
            format!("{} ({})", attempt.code, attempt.kind).into(),
            error_text(attempt).into(),
        ]);
    }

    /// How long after the line before.
    fn after(&mut self, at: &str) -> String {
        let now = at.parse::<Timestamp>().ok();
        let since = std::mem::replace(&mut self.last, now);
        let passed = now.zip(since).map(|(now, since)| now.duration_since(since));
        let passed = passed.and_then(|passed| Duration::try_from(passed).ok());
        passed.map(|passed| format!("+ {}", words::duration(passed))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn attempt(generation: u64, number: u64, tried: u64, at: &str) -> Value {
        json!({
            "generation": generation, "number": number, "try": tried, "duration_ms": 250,
            "at": format!("2026-11-14T{at}Z"), "kind": "transient", "code": "http-503",
            "detail_bytes": 12,
        })
    }

    #[test]
    fn attempts_are_told_in_order_with_what_lies_between() {
        let letter: Letter = serde_json::from_value(json!({
            "id": 17, "queue": "lab", "message_id": "m-1", "type": "lab.result",
            "reason": "3 retries used up", "reason_code": "exhausted", "replayed": 1,
            "at": "2026-11-14T12:00:01Z", "time": "2026-11-14T09:00:00Z",
            "history": [
                attempt(0, 1, 1, "09:00:00.100"), attempt(0, 1, 2, "09:00:01.600"),
                attempt(0, 4, 1, "09:03:01.600"), attempt(1, 1, 1, "12:00:00"),
            ],
        }))
        .unwrap();
        let plain = anstream::adapter::strip_str(&timeline(&letter).render()).to_string();
        let expected = "\
when                          after  what                          took  error                 error text
2026-11-14 09:00:00 UTC              made
2026-11-14 09:00:00 UTC    + 100 ms  attempt 1                   250 ms  http-503 (transient)  12 bytes, not shown
2026-11-14 09:00:01 UTC     + 1.5 s  attempt 1, try 2            250 ms  http-503 (transient)  12 bytes, not shown
                                     … 2 attempts not on record
2026-11-14 09:03:01 UTC       + 3 m  attempt 4                   250 ms  http-503 (transient)  12 bytes, not shown
                                     replayed
2026-11-14 12:00:00 UTC  + 2 h 56 m  attempt 1                   250 ms  http-503 (transient)  12 bytes, not shown
2026-11-14 12:00:01 UTC     + 1.0 s  set aside: exhausted
";
        assert_eq!(plain, expected);
    }
}
