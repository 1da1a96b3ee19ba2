//! The timeline of a message.

use std::time::Duration;

use bezoar_gateway::api_types::{DeadLetterDetails, FailedTry};
use jiff::Timestamp;

use crate::{
    humanize::{self, plural},
    table::{Column, Table},
};

const COLUMNS: &[Column] = &[
    Column::text("time"),
    Column::number("after").drops(2),
    Column::text("event").shrinks_to(16),
    Column::number("took").drops(3),
    Column::text("error").shrinks_to(12),
    Column::text("error text").drops(1),
];

/// From its creation to the moment it was dead-lettered.
pub(super) fn timeline(letter: &DeadLetterDetails) -> Table {
    let mut lines = TimelineRows::new();
    lines.event(letter.summary.created_at, "created");
    let replayed = letter.summary.replays;
    let deaths = EarlierDeaths { ids: &letter.earlier, replayed };
    lines.failed_tries(&letter.history, &deaths);
    let last = letter.history.last().map_or(0, |last| last.generation);
    lines.replays(last, replayed, &deaths);
    let why = &letter.reason_code;
    lines.event(letter.summary.dead_lettered_at, &format!("dead-lettered: {why}"));
    lines.table
}

/// The failed tries alone.
pub(super) fn tries(history: &[FailedTry]) -> Table {
    let mut lines = TimelineRows::new();
    lines.failed_tries(history, &EarlierDeaths { ids: &[], replayed: 0 });
    lines.table
}

/// The dead letters that a message was before its replays.
struct EarlierDeaths<'a> {
    /// Those that are known, oldest first.
    ids: &'a [String],
    replayed: u64,
}

impl EarlierDeaths<'_> {
    /// The dead letter that ended a generation, if it is known.
    fn of(&self, generation: u64) -> Option<&String> {
        let from_the_end = usize::try_from(self.replayed.checked_sub(generation)?).ok()?;
        self.ids.get(self.ids.len().checked_sub(from_the_end)?)
    }
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
    fn new() -> Self {
        Self { table: Table::new(COLUMNS), last: None }
    }

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

    fn failed_tries(&mut self, history: &[FailedTry], deaths: &EarlierDeaths<'_>) {
        let (mut generation, mut attempt) = (0, 0);
        for failed in history {
            if failed.generation > generation {
                self.replays(generation, failed.generation, deaths);
            } else {
                self.not_recorded(failed.attempt.saturating_sub(attempt + 1), "attempt");
            }
            self.failed_try(failed);
            (generation, attempt) = (failed.generation, failed.attempt);
        }
    }

    /// What led from one generation to a later one.
    fn replays(&mut self, from: u64, to: u64, deaths: &EarlierDeaths<'_>) {
        if from >= to {
            return;
        }
        let id = deaths.of(from).map(|id| format!(" as {id}")).unwrap_or_default();
        self.note(&format!("dead-lettered{id}"));
        self.not_recorded(to - from - 1, "replay");
        self.note("replayed");
    }

    fn not_recorded(&mut self, missing: u64, noun: &str) {
        if missing > 0 {
            self.note(&format!("… {} not recorded", plural(missing, noun)));
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
            "earlier": ["dl_g4jmah4z"],
            "history": [
                failed_try(0, 1, 1, "09:00:00.100"), failed_try(0, 1, 2, "09:00:01.600"),
                failed_try(0, 4, 1, "09:03:01.600"), failed_try(1, 1, 1, "12:00:00"),
            ],
        }))
        .unwrap();
        let plain = anstream::adapter::strip_str(&timeline(&letter).render()).to_string();
        let expected = "\
time                          after  event                           took  error                 error text
2026-11-14 09:00:00 UTC              created
2026-11-14 09:00:00 UTC    + 100 ms  attempt 1                     250 ms  http-503 (transient)  12 bytes, not shown
2026-11-14 09:00:01 UTC     + 1.5 s  attempt 1, try 2              250 ms  http-503 (transient)  12 bytes, not shown
                                     … 2 attempts not recorded
2026-11-14 09:03:01 UTC       + 3 m  attempt 4                     250 ms  http-503 (transient)  12 bytes, not shown
                                     dead-lettered as dl_g4jmah4z
                                     replayed
2026-11-14 12:00:00 UTC  + 2 h 56 m  attempt 1                     250 ms  http-503 (transient)  12 bytes, not shown
2026-11-14 12:00:01 UTC     + 1.0 s  dead-lettered: exhausted
";
        assert_eq!(plain, expected);
    }

    #[test]
    fn earlier_dead_letters_are_named_as_far_as_they_are_known() {
        let mut rows = TimelineRows::new();
        let ids = ["dl_second", "dl_third"].map(str::to_owned);
        let deaths = EarlierDeaths { ids: &ids, replayed: 3 };
        [(0, 2), (2, 3), (3, 3)].into_iter().for_each(|(from, to)| rows.replays(from, to, &deaths));
        let events: Vec<_> = rows.table.rows()[1..].iter().map(|row| row[2].clipped(99)).collect();
        let expected = [
            "dead-lettered",
            "… 1 replay not recorded",
            "replayed",
            "dead-lettered as dl_third",
            "replayed",
        ];
        assert_eq!(events, expected);
        assert_eq!(deaths.of(1).map(String::as_str), Some("dl_second"));
    }
}
