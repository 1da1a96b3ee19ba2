//! Counts the outcomes of all lines and prints the summary.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::{Error, Result, anyhow, bail};
use serde_json::json;

use super::{
    batch_outcome::{BatchOutcome, LineAcceptance, LineOutcome},
    failed_lines::FailedLines,
    lines::LineBatch,
    progress::SendProgress,
};
use crate::{
    humanize::{count, duration, plural, rate},
    output,
};

/// Counts outcomes, prints ids as they arrive, and prints the summary.
pub(super) struct SendSummary {
    progress: SendProgress,
    format: Format,
    accepted: u64,
    /// How many were accepted before this run.
    repeated: u64,
    failures: FailedLines,
    /// The number of the last line that was sent, from 1.
    last: u64,
    has_ended: bool,
    is_interrupted: bool,
    stop: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A JSON object per line.
    Json,
    /// The id of each accepted message.
    Ids,
    /// Nothing: stdout is a terminal, or the pipe was closed.
    Nothing,
}

impl SendSummary {
    pub(super) fn new(progress: SendProgress, json: bool) -> Self {
        let format = match (json, io::stdout().is_terminal()) {
            (true, _) => Format::Json,
            (false, false) => Format::Ids,
            (false, true) => Format::Nothing,
        };
        let failures = FailedLines::default();
        let (has_ended, is_interrupted) = (false, false);
        Self {
            progress,
            format,
            accepted: 0,
            repeated: 0,
            failures,
            last: 0,
            has_ended,
            is_interrupted,
            stop: None,
        }
    }

    /// These lines are being sent.
    pub(super) fn started(&mut self, lines: &LineBatch) {
        self.last = self.last.max(lines.last());
    }

    /// The input has ended.
    pub(super) fn ended(&mut self) {
        self.has_ended = true;
    }

    /// Stops sending. The first reason is reported.
    pub(super) fn stop(&mut self, why: Error) {
        self.stop.get_or_insert(why);
    }

    /// Handles the first Ctrl-C.
    pub(super) fn interrupt(&mut self) {
        self.is_interrupted = true;
        let words = "waiting for requests in flight; press Ctrl-C again to abort";
        self.progress.aside(|| output::say(words));
        self.stop(anyhow!("interrupted"));
    }

    /// Handles the second Ctrl-C.
    pub(super) fn abandon(&mut self) {
        self.stop = Some(anyhow!("interrupted; messages in flight may have been accepted"));
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// Records the outcome of a batch.
    pub(super) fn record(&mut self, outcome: BatchOutcome) -> Result<()> {
        for outcome in &outcome.outcomes {
            match &outcome.result {
                Ok(LineAcceptance::New) => self.accepted += 1,
                Ok(LineAcceptance::Repeated) => self.repeated += 1,
                Err(error) => self.failures.add(outcome.number, &error.detail),
            }
        }
        if let Some(why) = outcome.stop {
            self.stop(why);
        }
        self.progress.advance(outcome.bytes, self.accepted + self.repeated);
        self.print(&outcome.outcomes)
    }

    fn print(&mut self, outcomes: &[LineOutcome]) -> Result<()> {
        let text: String = match self.format {
            Format::Json => outcomes.iter().map(as_json).collect(),
            Format::Ids => outcomes.iter().filter_map(as_id).collect(),
            Format::Nothing => return Ok(()),
        };
        if !self.progress.aside(|| output::print(&text))? {
            self.format = Format::Nothing;
        }
        Ok(())
    }

    /// Prints the summary; an error unless every line was accepted.
    pub(super) fn conclude(self) -> Result<()> {
        let elapsed = self.progress.finish();
        output::say(&summary(self.accepted, elapsed));
        if self.repeated > 0 {
            let were = if self.repeated == 1 { "was" } else { "were" };
            let repeated = plural(self.repeated, "message");
            output::say(&format!("{repeated} {were} accepted before; nothing was added for them"));
        }
        self.failures.lines().iter().for_each(|line| output::say(line));
        if !self.has_ended {
            let next = count(self.last + 1);
            output::say(&format!("lines from {next} on were not sent"));
        }
        let refused = plural(self.failures.count(), "line");
        match self.stop {
            Some(why) if self.failures.count() == 0 => Err(why),
            Some(why) => Err(why.context(format!("{refused} not accepted"))),
            None if self.failures.count() > 0 => bail!("{refused} not accepted"),
            None => Ok(()),
        }
    }
}

/// Omits the rate for very short runs.
fn summary(accepted: u64, elapsed: Duration) -> String {
    let done = format!("accepted {} in {}", plural(accepted, "message"), duration(elapsed));
    match elapsed.as_secs_f64() {
        ..0.1 => done,
        seconds => format!("{done}, {}/s", rate(accepted as f64 / seconds)),
    }
}

fn as_json(outcome: &LineOutcome) -> String {
    let id = outcome.id.as_ref().map(|id| id.as_str());
    let line = match &outcome.result {
        Ok(LineAcceptance::New) => json!({ "line": outcome.number, "id": id }),
        Ok(LineAcceptance::Repeated) => {
            json!({ "line": outcome.number, "id": id, "repeated": true })
        }
        Err(error) => json!({ "line": outcome.number, "id": id, "error": error }),
    };
    format!("{line}\n")
}

fn as_id(outcome: &LineOutcome) -> Option<String> {
    outcome.result.as_ref().ok()?;
    Some(format!("{}\n", outcome.id.as_ref()?))
}
