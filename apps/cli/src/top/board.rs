//! The state of the live view: queues, causes, operations, selection, and key bindings.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bezoar_gateway::api_types::{Cause, Operation};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::time::Instant;

use super::Snapshot;
use crate::{
    client::ClientError,
    queue_status::{QueueStatus, is_paused},
    route::RouteCommand,
};

/// How many seconds of throughput are kept.
const HISTORY: usize = 300;

/// How long the result of a key press is shown; later it may be outdated.
const NOTICE: Duration = Duration::from_secs(5);

/// The span of a trend, in samples of one second.
const TREND: usize = 60;

/// One value per second; `None` where it is unknown.
pub(super) type Samples = VecDeque<Option<u64>>;

/// The last minutes of a queue.
#[derive(Debug, Default)]
struct History {
    /// Messages per second, in tenths.
    throughput: Samples,
    /// Messages that wait, ready or delayed.
    waiting: Samples,
}

impl History {
    fn push(&mut self, throughput: Option<u64>, waiting: Option<u64>) {
        push(&mut self.throughput, throughput);
        push(&mut self.waiting, waiting);
    }
}

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) url: String,
    pub(super) queues: Vec<QueueStatus>,
    /// The causes with the most dead letters.
    pub(super) causes: Vec<Cause>,
    /// Replays and discards that run, or wait for somebody.
    pub(super) operations: Vec<Operation>,
    pub(super) selected: usize,
    /// When the gateway last answered.
    pub(super) as_of: Option<Instant>,
    /// Why it does not answer, if it does not.
    pub(super) problem: Option<String>,
    notice: Option<(String, Instant)>,
    /// The route that is paused if the next key is a yes.
    asked: Option<String>,
    history: BTreeMap<String, History>,
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
        let (queues, history) = (Vec::new(), BTreeMap::new());
        let (as_of, problem, notice, asked) = (None, None, None, None);
        let (causes, operations) = (Vec::new(), Vec::new());
        Self {
            url,
            queues,
            causes,
            operations,
            selected: 0,
            as_of,
            problem,
            notice,
            asked,
            history,
        }
    }

    /// The gateway answered.
    pub(super) fn learn(&mut self, snapshot: Snapshot, now: Instant) {
        let Snapshot { queues, causes, operations } = snapshot;
        let chosen = self.chosen().map(|status| status.queue.clone());
        let place = queues.iter().position(|status| Some(&status.queue) == chosen.as_ref());
        self.selected = place.unwrap_or(self.selected).min(queues.len().saturating_sub(1));
        self.history.retain(|name, _| queues.iter().any(|status| &status.queue == name));
        for status in &queues {
            let per_second = status.route.as_ref().and_then(|route| route.per_second);
            let tenths = per_second.map(|rate| (rate * 10.0).round() as u64);
            let waiting = status.ready.zip(status.delayed).map(|(ready, delayed)| ready + delayed);
            self.history.entry(status.queue.clone()).or_default().push(tenths, waiting);
        }
        (self.queues, self.as_of, self.problem) = (queues, Some(now), None);
        self.causes = causes.unwrap_or_else(|| std::mem::take(&mut self.causes));
        self.operations = operations.unwrap_or_else(|| std::mem::take(&mut self.operations));
    }

    /// The gateway did not answer: the data becomes stale and the curves get a gap.
    pub(super) fn lose(&mut self, error: ClientError) {
        self.history.values_mut().for_each(|history| history.push(None, None));
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
        self.history.get(queue).into_iter().flat_map(|it| &it.throughput).copied()
    }

    /// How many more messages of a queue wait than a minute ago, or than when it was first seen.
    pub(super) fn trend(&self, queue: &str) -> Option<i64> {
        let waiting = &self.history.get(queue)?.waiting;
        let before = waiting.get(waiting.len().saturating_sub(TREND + 1)).copied().flatten()?;
        let now = waiting.back().copied().flatten()?;
        Some(now as i64 - before as i64)
    }

    /// What to ask before the next key takes effect.
    pub(super) fn question(&self) -> Option<String> {
        let route = self.asked.as_ref()?;
        Some(format!("Pause {route}? Its messages wait until it is resumed. [y/N]"))
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
        if let Some(route) = self.asked.take() {
            let is_yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
            return is_yes.then_some(KeyAction::Command(RouteCommand::Pause, route));
        }
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
        if !is_paused(route) {
            self.asked = Some(route.name.clone());
            return None;
        }
        Some(KeyAction::Command(RouteCommand::Resume, route.name.clone()))
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
