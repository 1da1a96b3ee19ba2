//! The breaker of one route: failures of different messages open it, and a sign of life closes it.
//!
//! While it is open, each pause is followed by a round of probes with a budget. If the budget is used up and the last
//! probe ended without a sign of life, the next pause is twice as long. There are no timeouts: later messages use up
//! the rest of a budget, and an abandoned probe returns its share.

use std::{
    collections::HashSet,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{Admission, CallOutcome, Moment, SOON, recent::Recent};
use crate::Code;

/// The number of probes in one round.
const PROBES: u32 = 5;
/// The maximum pause, whatever is configured or requested.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How many of the messages tried during this opening are remembered.
const REMEMBERED: usize = 4_096;

/// Beyond this number of tries, further tries no longer affect the order.
const MOST_TIMES: u32 = 10;

/// When a breaker opens, and how long it pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// How many different messages must fail, without a sign of life since the first of them started.
    pub failures: NonZeroU32,
    /// The first pause; it doubles with every failed round of probes.
    pub first_pause: Duration,
    /// The longest pause, at most a day. Up to a tenth of it is added at random, so that gateways that lost an endpoint
    /// at the same time do not probe it at the same time.
    pub longest_pause: Duration,
}

impl Default for BreakerOptions {
    /// Opens after 5 messages; pauses from 1 s to 15 s.
    fn default() -> Self {
        Self {
            failures: NonZeroU32::new(5).expect("5 is not 0"),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(15),
        }
    }
}

/// The state of a breaker. Exhaustive: a breaker has exactly these three states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BreakerState {
    /// Messages are delivered.
    #[default]
    Closed,
    /// No message is delivered until the next probe.
    Open,
    /// Probes are running.
    HalfOpen,
}

impl BreakerState {
    /// The name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// The status of a breaker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BreakerStatus {
    /// The state.
    pub state: BreakerState,
    /// The code of the latest evidence, unless the breaker is closed.
    pub code: Option<Code>,
    /// How many messages opened it.
    pub messages: usize,
    /// How long it has been open.
    pub open_for: Duration,
    /// The time until the next probe; zero if a probe may start now.
    pub next_probe: Duration,
}

/// A failed call, as evidence that the endpoint is down.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) key: u64,
    pub(super) started: Instant,
    pub(super) last_failure_at: Option<Timestamp>,
    pub(super) outcome: CallOutcome,
    pub(super) code: &'a Code,
}

#[derive(Debug)]
pub(super) struct Breaker {
    options: Option<BreakerOptions>,
    last_life: Option<Moment>,
    gathered: Gathered,
    opening: Option<Opening>,
    rounds: u64,
}

/// The evidence since the last sign of life.
#[derive(Debug, Default)]
struct Gathered {
    messages: HashSet<u64>,
    /// Messages whose failure may be the route's fault, including those whose call started before the last sign of
    /// life.
    misdirected: HashSet<u64>,
    careful: bool,
    /// Whether any failure other than "nothing could be sent" occurred.
    was_sent: bool,
    asked: Duration,
}

#[derive(Debug)]
struct Opening {
    since: Instant,
    code: Code,
    messages: usize,
    pause: Duration,
    until: Instant,
    round: Round,
    tried: Recent<Tried>,
}

/// A message that was tried in this opening.
#[derive(Debug, Clone, Copy)]
struct Tried {
    times: u32,
    /// The round in which it last yielded to messages with fewer tries.
    stood_back: u64,
}

#[derive(Debug)]
struct Round {
    number: u64,
    left: u32,
    running: u32,
    asked: Duration,
    /// Whether the next round should use a single probe.
    careful: bool,
}

impl Breaker {
    pub(super) fn new(options: Option<BreakerOptions>) -> Self {
        let options = options.map(|mut options| {
            options.longest_pause = options.longest_pause.min(LONGEST);
            options.first_pause = options.first_pause.min(options.longest_pause);
            options
        });
        Self { options, last_life: None, gathered: Gathered::default(), opening: None, rounds: 0 }
    }

    /// How many messages may pass; `None` means any number.
    pub(super) fn admit(&self, now: Instant) -> Option<Admission> {
        let opening = self.opening.as_ref()?;
        if opening.until > now {
            return Some(Admission::Wait(opening.until - now));
        }
        let left = NonZeroU32::new(opening.round.left);
        Some(left.map_or(Admission::WaitForCall, Admission::UpTo))
    }

    /// Admits a message, as a probe if the breaker is open, or returns how long it should wait.
    pub(super) fn enter(&mut self, key: u64, now: Instant) -> Result<Option<u64>, Duration> {
        let Some(opening) = &mut self.opening else { return Ok(None) };
        if opening.until > now {
            return Err(opening.until - now);
        }
        let round = &mut opening.round;
        if round.left == 0 {
            return Err(self.options.map_or(SOON, |options| options.first_pause));
        }
        let tried = opening.tried.get(key).copied();
        // Messages with fewer tries go first, if there are any: they come back sooner.
        if let Some(Tried { times, stood_back }) = tried
            && stood_back < round.number
        {
            opening.tried.set(key, Tried { times, stood_back: round.number });
            return Err(SOON * times.min(MOST_TIMES));
        }
        let times = tried.map_or(0, |tried| tried.times) + 1;
        opening.tried.set(key, Tried { times, stood_back: round.number - 1 });
        round.left -= 1;
        round.running += 1;
        Ok(Some(round.number))
    }

    /// A sign of life: closes the breaker and clears all evidence.
    pub(super) fn life(&mut self, at: Moment) {
        self.last_life = Some(at);
        self.gathered = Gathered::default();
        self.opening = None;
    }

    /// Records evidence, and opens the breaker if there is enough.
    pub(super) fn note(&mut self, evidence: Evidence<'_>, now: Instant, chance: f64) {
        let Some(options) = self.options else { return };
        let most = options.failures.get() as usize;
        if evidence.outcome.may_blame_the_route() && self.gathered.misdirected.len() < most {
            self.gathered.misdirected.insert(evidence.key);
        }
        if self.is_void(&evidence) {
            return;
        }
        let gathered = &mut self.gathered;
        if gathered.messages.len() < most {
            gathered.messages.insert(evidence.key);
        }
        gathered.careful |= evidence.outcome.calls_for_care();
        gathered.was_sent |= evidence.outcome != CallOutcome::Unsent;
        gathered.asked = gathered.asked.max(evidence.outcome.asked());
        match &mut self.opening {
            Some(opening) => opening.went_on(&evidence),
            None if gathered.messages.len() >= most => self.open(evidence, options, now, chance),
            None => (),
        }
    }

    /// Whether enough messages failed in a way that may be the route's fault to blame the route.
    pub(super) fn is_known_misdirected(&self) -> bool {
        let known = self.gathered.misdirected.len();
        self.options.is_some_and(|options| known >= options.failures.get() as usize)
    }

    /// Records the end of a probe. Without a sign of life, the last one of its round starts the next pause.
    pub(super) fn probe_ended(
        &mut self,
        round: u64,
        outcome: CallOutcome,
        now: Instant,
        chance: f64,
    ) {
        let (Some(options), Some(opening)) = (self.options, self.of_round(round)) else { return };
        opening.round.running -= 1;
        opening.round.asked = opening.round.asked.max(outcome.asked());
        opening.round.careful |= outcome.calls_for_care();
        if opening.round.left > 0 || opening.round.running > 0 {
            return;
        }
        let longest = (options.longest_pause * outcome.patience()).min(LONGEST);
        opening.pause = (opening.pause * 2).min(longest);
        opening.until = now + lengthened(opening.pause, opening.round.asked, chance);
        opening.round = Round::new(round + 1, opening.round.careful);
        self.rounds = round + 1;
    }

    /// Records an abandoned probe: another message may take its place.
    pub(super) fn probe_abandoned(&mut self, round: u64) {
        if let Some(opening) = self.of_round(round) {
            opening.round.running -= 1;
            opening.round.left += 1;
        }
    }

    /// Records that the host is reachable, and drops evidence that only said otherwise.
    pub(super) fn reachable(&mut self, now: Instant) {
        if self.gathered.was_sent {
            return;
        }
        match self.opening {
            Some(_) => self.probe_now(now),
            None => self.gathered = Gathered::default(),
        }
    }

    pub(super) fn probe_now(&mut self, now: Instant) {
        if let Some(opening) = &mut self.opening {
            opening.until = opening.until.min(now);
        }
    }

    pub(super) fn status(&self, now: Instant) -> BreakerStatus {
        let Some(opening) = &self.opening else { return BreakerStatus::default() };
        let probing = opening.round.running > 0;
        BreakerStatus {
            state: if probing { BreakerState::HalfOpen } else { BreakerState::Open },
            code: Some(opening.code.clone()),
            messages: opening.messages,
            open_for: now.saturating_duration_since(opening.since),
            next_probe: opening.until.saturating_duration_since(now),
        }
    }

    /// A call that started before the last sign of life says nothing about the time since, and a message that failed
    /// before it is evidence against itself, not against the endpoint.
    fn is_void(&self, evidence: &Evidence<'_>) -> bool {
        let Some(life) = self.last_life else { return false };
        evidence.started < life.now || evidence.last_failure_at.is_some_and(|at| at < life.wall)
    }

    fn open(&mut self, last: Evidence<'_>, options: BreakerOptions, now: Instant, chance: f64) {
        self.rounds += 1;
        let mut tried = Recent::new(REMEMBERED);
        for key in &self.gathered.messages {
            tried.set(*key, Tried { times: 1, stood_back: self.rounds - 1 });
        }
        self.opening = Some(Opening {
            since: now,
            code: last.code.clone(),
            messages: self.gathered.messages.len(),
            pause: options.first_pause,
            until: now + lengthened(options.first_pause, self.gathered.asked, chance),
            round: Round::new(self.rounds, self.gathered.careful),
            tried,
        });
    }

    fn of_round(&mut self, number: u64) -> Option<&mut Opening> {
        self.opening.as_mut().filter(|opening| opening.round.number == number)
    }
}

impl Opening {
    /// Records further evidence while the breaker is open.
    fn went_on(&mut self, evidence: &Evidence<'_>) {
        self.code = evidence.code.clone();
        if self.tried.get(evidence.key).is_none() {
            self.tried.set(evidence.key, Tried { times: 1, stood_back: self.round.number - 1 });
        }
    }
}

impl Round {
    fn new(number: u64, careful: bool) -> Self {
        let left = if careful { 1 } else { PROBES };
        Self { number, left, running: 0, asked: Duration::ZERO, careful: false }
    }
}

fn lengthened(pause: Duration, asked: Duration, chance: f64) -> Duration {
    pause.mul_f64(1.0 + 0.1 * chance).max(asked.min(LONGEST))
}
