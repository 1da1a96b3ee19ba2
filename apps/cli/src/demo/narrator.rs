//! Tells the story as it happens: a line for what is worth one, and counters that never stand still.

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

/// At most so many lines are told of one kind of event in a second; the counters show the rest.
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

    /// Who is there, and how to look at it. Only then do counters begin to move: they would be in what is copied.
    pub(super) fn introduce(&self, url: &str, token: &Path, seconds: Option<u32>) {
        let end = seconds.map_or("Ctrl-C ends it".to_owned(), |seconds| format!("{seconds} s"));
        let (program, token) = (program(), token.display());
        let curl = "curl -H \"Authorization: Bearer $BEZOAR_TOKEN\" $BEZOAR_URL";
        let introduction = format!(
            "A clinic sends {PER_SECOND} messages a second through a gateway on {url} to an archive that fails at times ({end}).\n\
             \n\
             Look at it from another terminal:\n  \
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

    /// One line of the story, with the time since its start.
    pub(super) fn say(&self, sign: &str, text: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.line(&format!("{seconds:6.1} s  {sign} {text}"));
    }

    /// An attempt failed, and will be repeated.
    pub(super) fn failed(&self, id: &str, message_type: &str, answer: &str) {
        if self.failed_lines.take(self.started) {
            self.say("✗", &format!("{} {}: {answer}", short(id), printable(message_type)));
        }
    }

    /// A message was taken that had come before.
    pub(super) fn accepted_on_retry(&self, id: &str, message_type: &str, delivery: u32) {
        if self.taken_lines.take(self.started) {
            let message_type = printable(message_type);
            self.say("↻", &format!("{} {message_type}: taken on delivery {delivery}", short(id)));
        }
    }

    /// A message is dead.
    pub(super) fn set_aside(&self, dead_letter: i64, id: &str, cause: &str) {
        if self.dead_lines.take(self.started) {
            let more = format!("bezoar dead show {dead_letter}");
            self.say("☠", &format!("{} set aside: {}; {more}", short(id), printable(cause)));
        }
    }

    /// How many messages are where: always on a terminal, once a second otherwise.
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

    /// Tells how it ended.
    pub(super) fn conclude(&self, counts: &MessageCounts, causes: &BTreeMap<String, u64>) {
        self.status.finish_and_clear();
        let verdict = if counts.adds_up() { "✓ it adds up" } else { "✗" };
        self.line(&format!("\n{counts}  {verdict}"));
        let MessageCounts { retried, uncounted, .. } = counts;
        self.line(&format!("{retried} failures used up a retry, {uncounted} did not; dead:"));
        for (cause, count) in causes {
            self.line(&format!("{count:8} × {}", printable(cause)));
        }
    }

    fn line(&self, text: &str) {
        // Who closed stdout does not want to know.
        self.status.suspend(|| drop(output::print(&format!("{text}\n"))));
    }
}

/// How this program can be called from another terminal, which may be in another folder.
fn program() -> String {
    let is_path =
        env::args_os().next().is_some_and(|name| Path::new(&name).components().count() > 1);
    let path = env::current_exe().ok().filter(|_| is_path);
    path.map_or("bezoar".to_owned(), |path| path.display().to_string())
}

/// The end of an id, which tells messages of the same moment apart.
fn short(id: &str) -> String {
    let start = id.char_indices().rev().nth(11).map_or(0, |(position, _)| position);
    format!("…{}", printable(&id[start..]))
}
