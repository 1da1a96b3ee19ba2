//! Decides whether the message or the endpoint is to blame for a failed call, for one route and by evidence only.
//!
//! A call [enters](Blame::enter) and [leaves](Blame::leave) with an outcome. Some outcomes are about the message and
//! always count (500, a timeout). Some never count (nothing was sent, the endpoint asked to wait). The others are
//! ambiguous, and other messages decide: if any succeeded since this one last failed, or if it was the only one in
//! flight, an ambiguous outcome makes the message suspected. Failures of different messages without a success open the
//! breaker, which then admits a few messages as probes. A wrong credential, a wrong URL or a missing acknowledgement counts only
//! until enough messages got it: then the route is to blame. A response about a message is a sign of life: it closes the
//! breaker and clears the evidence.
//!
//! Everything here is pure and bounded: time and randomness are arguments, and the memory of messages has a limit. A
//! forgotten message does not become suspected.

mod breaker;
mod limit;
mod neighbours;
mod outcome;
mod recent;
mod slow;
#[cfg(test)]
mod tests;

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use self::{breaker::Breaker, limit::Limit, neighbours::Neighbours, slow::SlowSlots};
pub use self::{
    breaker::{BreakerOptions, BreakerState, BreakerStatus},
    outcome::{CallOutcome, Judgement},
};
use crate::Code;

/// How long a message waits for a slot, or for messages with fewer tries.
const SOON: Duration = Duration::from_millis(100);

/// How blame is assigned on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlameOptions {
    /// The breaker's options; `None` turns it off.
    pub breaker: Option<BreakerOptions>,
    /// How many concurrent calls the caller makes; fewer are admitted while the endpoint asks to wait.
    pub concurrency: NonZeroU32,
}

impl Default for BlameOptions {
    /// A breaker with its defaults, and 16 concurrent calls.
    fn default() -> Self {
        let concurrency = NonZeroU32::new(16).expect("16 is not 0");
        Self { breaker: Some(BreakerOptions::default()), concurrency }
    }
}

/// A point in time, by the monotonic clock and by the wall clock of ledgers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time on the monotonic clock.
    pub now: Instant,
    /// The time on the wall clock.
    pub wall: Timestamp,
}

/// What is known about a message before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFacts {
    /// A number that identifies the message in its generation.
    pub key: u64,
    /// When it last failed in this generation.
    pub last_failure_at: Option<Timestamp>,
    /// Whether its last attempt in this generation timed out.
    pub timed_out: bool,
}

/// An admitted call. It must be passed to [`Blame::leave`] or [`Blame::abandon`].
#[derive(Debug)]
#[must_use]
pub struct Call {
    message: MessageFacts,
    started: Instant,
    /// Its number among all calls, from 1.
    number: u64,
    /// Whether nothing else was in flight when it started.
    alone: bool,
    /// The round of probes that it belongs to.
    round: Option<u64>,
}

/// How many messages may be fetched. Exhaustive: whoever fetches must obey every answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// At most this many messages.
    UpTo(NonZeroU32),
    /// No message until this time has passed or something changes.
    Wait(Duration),
    /// No message until a call ends.
    WaitForCall,
}

/// Calls of a route that failed since its endpoint last accepted a message or answered about one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureStreak {
    /// How many calls failed.
    pub calls: u64,
    /// The code of the latest failure.
    pub code: Code,
}

/// Assigns blame for the failures of one route.
#[derive(Debug)]
pub struct Blame {
    breaker: Breaker,
    neighbours: Neighbours,
    limit: Limit,
    slow: SlowSlots,
    in_flight: u32,
    entered: u64,
    succeeded: bool,
    streak: Option<FailureStreak>,
}

impl Blame {
    /// Starts without any evidence.
    pub fn new(options: BlameOptions) -> Self {
        Self {
            breaker: Breaker::new(options.breaker),
            neighbours: Neighbours::default(),
            limit: Limit::new(options.concurrency),
            slow: SlowSlots::default(),
            in_flight: 0,
            entered: 0,
            succeeded: false,
            streak: None,
        }
    }

    /// How many messages may be fetched now. Changes nothing.
    pub fn admit(&self, now: Instant) -> Admission {
        let Some(free) = NonZeroU32::new(self.limit.free(self.in_flight)) else {
            return Admission::WaitForCall;
        };
        match self.breaker.admit(now) {
            Some(Admission::UpTo(probes)) => Admission::UpTo(probes.min(free)),
            Some(wait) => wait,
            None => Admission::UpTo(free),
        }
    }

    /// Admits a message.
    ///
    /// # Errors
    ///
    /// How long the message should wait instead.
    pub fn enter(&mut self, message: MessageFacts, now: Instant) -> Result<Call, Duration> {
        if self.limit.free(self.in_flight) == 0 {
            return Err(SOON);
        }
        self.slow.check(&message, self.limit.current())?;
        let round = self.breaker.enter(message.key, now)?;
        self.slow.entered(&message);
        self.entered += 1;
        let alone = self.in_flight == 0;
        self.in_flight += 1;
        Ok(Call { message, started: now, number: self.entered, alone, round })
    }

    /// Records the outcome of a call and returns whether it counts. `code` is for display; `chance` is a random
    /// number in [0, 1).
    pub fn leave(
        &mut self,
        call: Call,
        outcome: CallOutcome,
        code: &Code,
        at: Moment,
        chance: f64,
    ) -> Judgement {
        let judgement = self.judge(&call, outcome);
        self.ended(&call);
        self.neighbours.note(call.message.key, outcome);
        self.streak = outcome.is_evidence().then(|| FailureStreak {
            calls: self.streak.as_ref().map_or(0, |streak| streak.calls) + 1,
            code: code.clone(),
        });
        match outcome {
            CallOutcome::Done => {
                self.succeeded = true;
                self.limit.succeeded();
                self.breaker.life(at);
            }
            CallOutcome::Answered => self.breaker.life(at),
            CallOutcome::Throttled { .. } => self.limit.throttled(call.started, at.now),
            _ => (),
        }
        if outcome.is_evidence() {
            let evidence = breaker::Evidence {
                key: call.message.key,
                started: call.started,
                last_failure_at: call.message.last_failure_at,
                outcome,
                code,
            };
            self.breaker.note(evidence, at.now, chance);
        }
        if let Some(round) = call.round {
            self.breaker.probe_ended(round, outcome, at.now, chance);
        }
        judgement
    }

    /// Returns a call that ended without an outcome, for example because of a shutdown or a lost
    /// lease.
    pub fn abandon(&mut self, call: Call) {
        self.ended(&call);
        if let Some(round) = call.round {
            self.breaker.probe_abandoned(round);
        }
    }

    /// Records that another route could send nothing to the same host.
    pub fn unsent_elsewhere(
        &mut self,
        (key, started): (u64, Instant),
        code: &Code,
        now: Instant,
        chance: f64,
    ) {
        let outcome = CallOutcome::Unsent;
        let evidence = breaker::Evidence { key, started, last_failure_at: None, outcome, code };
        self.breaker.note(evidence, now, chance);
    }

    /// Records that another route could send to the same host. Probes start at once if there is no other
    /// evidence.
    pub fn reachable(&mut self, now: Instant) {
        self.breaker.reachable(now);
    }

    /// Ends the pause of an open breaker, so that probes start at once.
    pub fn probe_now(&mut self, now: Instant) {
        self.breaker.probe_now(now);
    }

    /// The status of the breaker.
    pub fn status(&self, now: Instant) -> BreakerStatus {
        self.breaker.status(now)
    }

    /// The failures since the last sign of life, if there are any.
    pub fn streak(&self) -> Option<&FailureStreak> {
        self.streak.as_ref()
    }

    fn ended(&mut self, call: &Call) {
        self.in_flight -= 1;
        self.slow.left(&call.message);
    }

    fn judge(&self, call: &Call, outcome: CallOutcome) -> Judgement {
        const NOBODY: Judgement = Judgement::Uncounted { suspected: false };
        match outcome {
            CallOutcome::Done | CallOutcome::Answered | CallOutcome::Failed => Judgement::Counts,
            CallOutcome::Throttled { .. } | CallOutcome::Unsent => NOBODY,
            CallOutcome::Ambiguous { fresh_connection } => {
                let alone = call.alone && self.entered == call.number;
                let against = self.neighbours.speak_against(call.message.key);
                Judgement::Uncounted { suspected: against || (alone && fresh_connection) }
            }
            CallOutcome::Misdirected | CallOutcome::Unacknowledged => {
                match self.breaker.is_known_misdirected() {
                    true => NOBODY,
                    false => Judgement::Counts,
                }
            }
            CallOutcome::Gone if self.succeeded => Judgement::Counts,
            CallOutcome::Gone => Judgement::PauseRoute,
        }
    }
}
