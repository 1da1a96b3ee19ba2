//! The state of the live view: queues, selection, and key bindings.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::time::Instant;

use crate::{
    client::ClientError,
    queue_status::{QueueStatus, is_paused},
    route::RouteCommand,
};

/// How many seconds of throughput are kept.
const HISTORY: usize = 300;

/// How long the result of a key press is shown; later it may be outdated.
const NOTICE: Duration = Duration::from_secs(5);

/// Messages per second in tenths; `None` where unknown.
pub(super) type Samples = VecDeque<Option<u64>>;

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) url: String,
    pub(super) queues: Vec<QueueStatus>,
    pub(super) selected: usize,
    /// When the gateway last answered.
    pub(super) as_of: Option<Instant>,
    /// Why it does not answer, if it does not.
    pub(super) problem: Option<String>,
    notice: Option<(String, Instant)>,
    samples: BTreeMap<String, Samples>,
}

/// What a key press triggers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Quit,
    /// A command for the route of this name.
    Command(RouteCommand, String),
}

impl Board {
    pub(super) fn new(url: String) -> Self {
        let (queues, samples) = (Vec::new(), BTreeMap::new());
        Self { url, queues, selected: 0, as_of: None, problem: None, notice: None, samples }
    }

    /// The gateway answered.
    pub(super) fn learn(&mut self, queues: Vec<QueueStatus>, now: Instant) {
        let chosen = self.chosen().map(|status| status.queue.clone());
        let place = queues.iter().position(|status| Some(&status.queue) == chosen.as_ref());
        self.selected = place.unwrap_or(self.selected).min(queues.len().saturating_sub(1));
        self.samples.retain(|name, _| queues.iter().any(|status| &status.queue == name));
        for status in &queues {
            let per_second = status.route.as_ref().and_then(|route| route.per_second);
            let tenths = per_second.map(|rate| (rate * 10.0).round() as u64);
            push(self.samples.entry(status.queue.clone()).or_default(), tenths);
        }
        (self.queues, self.as_of, self.problem) = (queues, Some(now), None);
    }

    /// The gateway did not answer: the data becomes stale and the curves get a gap.
    pub(super) fn lose(&mut self, error: ClientError) {
        self.samples.values_mut().for_each(|samples| push(samples, None));
        self.problem = Some(match &error {
            ClientError::Refused(problem) => problem.to_string(),
            _ => "unreachable, retrying".to_owned(),
        });
    }

    /// A command for a route succeeded or failed.
    pub(super) fn command_done(
        &mut self,
        route: &str,
        command: RouteCommand,
        error: Option<ClientError>,
        now: Instant,
    ) {
        let words = match (error, command) {
            (Some(error), _) => format!("cannot {} {route}: {error}", command.as_str()),
            (None, RouteCommand::Pause) => format!("{route} is paused"),
            (None, RouteCommand::Resume) => format!("{route} is resumed"),
        };
        self.notice = Some((words, now));
    }

    /// The result of the last key press, while it is recent.
    pub(super) fn notice(&self, now: Instant) -> Option<&str> {
        let (words, since) = self.notice.as_ref()?;
        (now.saturating_duration_since(*since) < NOTICE).then_some(words)
    }

    /// The throughput of a queue, oldest first.
    pub(super) fn samples(&self, queue: &str) -> impl DoubleEndedIterator<Item = Option<u64>> {
        self.samples.get(queue).into_iter().flatten().copied()
    }

    /// The selected queue.
    pub(super) fn chosen(&self) -> Option<&QueueStatus> {
        self.queues.get(self.selected)
    }

    /// Handles a terminal event.
    pub(super) fn press(&mut self, event: &Event, now: Instant) -> Option<KeyAction> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key, now),
            _ => None, // a new size takes effect with the next frame
        }
    }

    fn key(&mut self, key: KeyEvent, now: Instant) -> Option<KeyAction> {
        let last = self.queues.len().saturating_sub(1);
        self.notice = None;
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Char('c'), true) | (KeyCode::Char('q') | KeyCode::Esc, false) => {
                return Some(KeyAction::Quit);
            }
            (KeyCode::Up | KeyCode::Char('k'), _) => {
                self.selected = self.selected.saturating_sub(1)
            }
            (KeyCode::Down | KeyCode::Char('j'), _) => {
                self.selected = (self.selected + 1).min(last)
            }
            (KeyCode::Home, _) => self.selected = 0,
            (KeyCode::End, _) => self.selected = last,
            (KeyCode::Char('p'), false) => return self.toggle(now),
            _ => {}
        }
        None
    }

    fn toggle(&mut self, now: Instant) -> Option<KeyAction> {
        let status = self.queues.get(self.selected)?;
        let Some(route) = &status.route else {
            self.notice = Some((format!("{} has no route to pause", status.queue), now));
            return None;
        };
        let command = if is_paused(route) { RouteCommand::Resume } else { RouteCommand::Pause };
        Some(KeyAction::Command(command, route.name.clone()))
    }
}

fn push(samples: &mut Samples, sample: Option<u64>) {
    if samples.len() == HISTORY {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
