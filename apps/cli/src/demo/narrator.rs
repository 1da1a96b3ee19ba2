//! Tells the story as it happens: a line for what is worth one, and counters that never stand still.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bezoar::{DeadLetter, Event, Message, Observer, QueueName};
use indicatif::{ProgressBar, ProgressStyle};

/// At most so many lines are told of one kind of event in a second; the counters show the rest.
const LINES_A_SECOND: u64 = 2;

#[derive(Debug)]
pub(crate) struct Narrator {
    started: Instant,
    status: ProgressBar,
    terminal: bool,
    accepted: AtomicU64,
    done: AtomicU64,
    retried: AtomicU64,
    set_aside: AtomicU64,
    retry_lines: Budget,
    dead_lines: Budget,
    status_lines: Budget,
}

impl Narrator {
    pub(crate) fn new(terminal: bool) -> Self {
        let status = if terminal { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner:.green} {msg}") {
            status.set_style(style);
        }
        status.enable_steady_tick(Duration::from_millis(100));
        Self {
            started: Instant::now(),
            status,
            terminal,
            accepted: AtomicU64::default(),
            done: AtomicU64::default(),
            retried: AtomicU64::default(),
            set_aside: AtomicU64::default(),
            retry_lines: Budget::new(LINES_A_SECOND),
            dead_lines: Budget::new(LINES_A_SECOND),
            status_lines: Budget::new(1),
        }
    }

    pub(crate) fn introduce(&self, database: &Path, seconds: Option<u32>) {
        let end = seconds.map_or("Ctrl-C ends it".to_owned(), |seconds| format!("{seconds} s"));
        self.line(&format!(
            "A laboratory sends 20 results a second to an archive that fails at times ({end})."
        ));
        self.line(&format!(
            "Every one is stored in {} before it counts as accepted.\n",
            database.display()
        ));
    }

    /// One line of the story, with the time since its start.
    pub(crate) fn say(&self, sign: &str, text: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.line(&format!("{seconds:6.1} s  {sign} {text}"));
    }

    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.show_counters();
    }

    /// Why messages were set aside, how many each.
    pub(crate) fn causes(&self, dead: &[DeadLetter]) {
        let mut causes = BTreeMap::<_, u32>::new();
        for dead in dead {
            let code = dead.message.ledger.last().map_or("", |attempt| attempt.code.as_str());
            *causes.entry((dead.reason.to_string(), code)).or_default() += 1;
        }
        for ((reason, code), count) in causes {
            self.line(&format!("              {count:4} × {reason} ({code})"));
        }
    }

    /// Tells how it ended; `false` if the numbers do not add up.
    pub(crate) fn conclude(&self, waiting: u64, dead: &[DeadLetter]) -> bool {
        self.status.finish_and_clear();
        let (accepted, done) = (read(&self.accepted), read(&self.done));
        let adds_up = accepted == done + dead.len() as u64 + waiting;
        self.line(&format!(
            "\naccepted {accepted} = done {done} + dead {} + waiting {waiting}  {}",
            dead.len(),
            if adds_up { "✓ it adds up" } else { "✗" }
        ));
        self.line(&format!("{} retries along the way; still dead:", read(&self.retried)));
        self.causes(dead);
        adds_up
    }

    fn show_counters(&self) {
        let [accepted, done, retried, set_aside] =
            [&self.accepted, &self.done, &self.retried, &self.set_aside].map(read);
        let counters =
            format!("accepted {accepted}  done {done}  retries {retried}  set aside {set_aside}");
        if self.terminal {
            self.status.set_message(counters);
        } else if self.status_lines.take(self.started) {
            self.say(" ", &counters);
        }
    }

    fn line(&self, text: &str) {
        if self.terminal {
            self.status.println(text);
        } else {
            println!("{text}");
        }
    }
}

impl Observer for Narrator {
    fn message(&self, _: &QueueName, message: &Message, event: &Event<'_>) {
        let short = message.id.as_str().get(24..).unwrap_or_default();
        match event {
            Event::TryFailed(attempt) if self.retry_lines.take(self.started) => {
                self.say("✗", &format!("…{short} failed: {} ({})", attempt.code, attempt.kind));
            }
            Event::Retried { after } => {
                self.retried.fetch_add(1, Ordering::Relaxed);
                if self.retry_lines.take(self.started) {
                    let next = message.ledger.failed + 1;
                    self.say(
                        "↻",
                        &format!("…{short} retry {next} of 3 in {:.1} s", after.as_secs_f64()),
                    );
                }
            }
            Event::DeadLettered { reason } => {
                self.set_aside.fetch_add(1, Ordering::Relaxed);
                if self.dead_lines.take(self.started) {
                    self.say("☠", &format!("…{short} set aside: {reason}"));
                }
            }
            Event::Completed => {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.show_counters();
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// So many in each second.
#[derive(Debug)]
struct Budget {
    each_second: u64,
    /// The second, and how many were taken in it.
    taken: AtomicU64,
}

impl Budget {
    fn new(each_second: u64) -> Self {
        Self { each_second, taken: AtomicU64::new(0) }
    }

    fn take(&self, started: Instant) -> bool {
        let second = (started.elapsed().as_secs() + 1) << 16;
        let count = |taken: u64| {
            let this_second = if taken >> 16 == second >> 16 { taken } else { second };
            (this_second - second < self.each_second).then_some(this_second + 1)
        };
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}
