//! Prints the story as it happens: a line for each notable event, and live counters.

mod line_limit;

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use self::line_limit::LineLimit;
use super::{message_counts::MessageCounts, traffic::PER_SECOND};
use crate::output::{self, printable};

/// The maximum number of lines per second for one kind of event; the counters show the rest.
const LINES_A_SECOND: u64 = 2;

#[derive(Debug)]
pub(super) struct Narrator {
    started: Instant,
    status: ProgressBar,
    terminal: bool,
    failed_lines: LineLimit,
    taken_lines: LineLimit,
    dead_lines: LineLimit,
    status_lines: LineLimit,
}

impl Narrator {
    pub(super) fn new(terminal: bool) -> Self {
        let status = if terminal { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner:.green} {msg}") {
            status.set_style(style);
        }
        Self {
            started: Instant::now(),
            status,
            terminal,
            failed_lines: LineLimit::new(LINES_A_SECOND),
            taken_lines: LineLimit::new(LINES_A_SECOND),
            dead_lines: LineLimit::new(LINES_A_SECOND),
            status_lines: LineLimit::new(1),
        }
    }

    /// Introduces the story and how to look at it. The counters start afterwards, so that they do not get into copied text.
    pub(super) fn introduce(&self, url: &str, token: &Path, seconds: Option<u32>) {
        let end = seconds.map_or("until Ctrl-C".to_owned(), |seconds| format!("{seconds} s"));
        let (program, token) = (program(), token.display());
        let curl = "curl -H \"Authorization: Bearer $BEZOAR_TOKEN\" $BEZOAR_URL";
        let introduction = format!(
            "A clinic sends {PER_SECOND} messages per second through a gateway on {url} to an archive that sometimes fails ({end}).\n\
             \n\
             Try it from another terminal:\n  \
             export BEZOAR_URL={url} BEZOAR_TOKEN=\"$(cat '{token}')\"\n  \
             {program} top\n  \
             {program} queues\n  \
             {program} dead list\n  \
             {program} send lab --body 'by hand'\n  \
             {curl}/v1/queues/lab/messages -H 'Content-Type: application/json' -d '{{\"by\": \"hand\"}}'\n"
        );
        self.line(&introduction);
        self.status.enable_steady_tick(Duration::from_millis(100));
    }

    /// Prints one line of the story, with the time since the start.
    pub(super) fn say(&self, sign: &str, text: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.line(&format!("{seconds:6.1} s  {sign} {text}"));
    }

    /// An attempt failed and will be retried.
    pub(super) fn failed(&self, id: &str, message_type: &str, answer: &str) {
        if self.failed_lines.take(self.started) {
            self.say("✗", &format!("{} {}: {answer}", short(id), printable(message_type)));
        }
    }

    /// A message was accepted after failing before.
    pub(super) fn accepted_on_retry(&self, id: &str, message_type: &str, delivery: u32) {
        if self.taken_lines.take(self.started) {
            let message_type = printable(message_type);
            self.say(
                "↻",
                &format!("{} {message_type}: accepted on delivery {delivery}", short(id)),
            );
        }
    }

    /// A message was dead-lettered.
    pub(super) fn set_aside(&self, dead_letter: &str, id: &str, cause: &str) {
        if self.dead_lines.take(self.started) {
            let more = format!("bezoar dead show {}", printable(dead_letter));
            self.say("☠", &format!("{} dead-lettered: {}; {more}", short(id), printable(cause)));
        }
    }

    /// Shows the counters: live on a terminal, once a second otherwise.
    pub(super) fn counters(&self, counts: &MessageCounts) {
        let MessageCounts { accepted, delivered, waiting, dead, .. } = counts;
        let counters =
            format!("accepted {accepted}  delivered {delivered}  waiting {waiting}  dead {dead}");
        if self.terminal {
            self.status.set_message(counters);
        } else if self.status_lines.take(self.started) {
            self.say(" ", &counters);
        }
    }

    /// Prints the summary.
    pub(super) fn conclude(&self, counts: &MessageCounts, causes: &BTreeMap<String, u64>) {
        self.status.finish_and_clear();
        let verdict = if counts.adds_up() { "✓ it adds up" } else { "✗" };
        self.line(&format!("\n{counts}  {verdict}"));
        let MessageCounts { retried, uncounted, .. } = counts;
        self.line(&format!(
            "{retried} failures used up a retry, {uncounted} did not; dead letters:"
        ));
        for (cause, count) in causes {
            self.line(&format!("{count:8} × {}", printable(cause)));
        }
    }

    fn line(&self, text: &str) {
        // A closed stdout is not an error.
        self.status.suspend(|| drop(output::print(&format!("{text}\n"))));
    }
}

/// How to call this program from another terminal, possibly in another folder.
fn program() -> String {
    let is_path =
        env::args_os().next().is_some_and(|name| Path::new(&name).components().count() > 1);
    let path = env::current_exe().ok().filter(|_| is_path);
    path.map_or("bezoar".to_owned(), |path| path.display().to_string())
}

/// The end of an id, which differs even between messages of the same moment.
fn short(id: &str) -> String {
    let start = id.char_indices().rev().nth(11).map_or(0, |(position, _)| position);
    format!("…{}", printable(&id[start..]))
}
