//! Who is to blame for a failed call: the message, or the endpoint. For one route, and by evidence only.
//!
//! How it works. A call [enters](Blame::enter) and [leaves](Blame::leave) with an outcome. Some outcomes speak of
//! the message and always count (500, a timeout). Some never do (nothing was sent, the endpoint asked to wait).
//! The others are ambiguous: the neighbours decide. If other messages succeeded since this one failed last, or if
//! it was the only one in flight, an ambiguous outcome makes the message suspected. Distinct messages that fail
//! while none succeeds open the breaker, which then lets a few messages through as probes. An answer about a
//! message is a sign of life: it closes the breaker and clears the evidence.
//!
//! Everything here is pure and bounded: time and chance are arguments, and what is remembered of messages has a
//! limit. What was forgotten raises no suspicion.

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

/// How long a message waits for a slot, or for messages that were not tried yet.
const SOON: Duration = Duration::from_millis(100);

/// How blame is assigned on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlameOptions {
    /// When the endpoint is left alone; never, if none.
    pub breaker: Option<BreakerOptions>,
    /// How many calls the caller makes at a time; fewer are let through while the endpoint asks for that.
    pub concurrency: NonZeroU32,
}

impl Default for BlameOptions {
    /// A breaker with its defaults, and 16 calls at a time.
    fn default() -> Self {
        let concurrency = NonZeroU32::new(16).expect("16 is not 0");
        Self { breaker: Some(BreakerOptions::default()), concurrency }
    }
}

/// The present, by a clock that never steps back and by the one that ledgers are written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// By the monotonic clock.
    pub now: Instant,
    /// By the wall clock.
    pub wall: Timestamp,
}

/// What is known of a message before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFacts {
    /// A number for the message in its generation.
    pub key: u64,
    /// When it last failed in this generation.
    pub last_failure_at: Option<Timestamp>,
    /// Whether its last attempt in this generation timed out.
    pub timed_out: bool,
}

/// A call that was let through. It must be given back, by [`Blame::leave`] or [`Blame::abandon`].
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

/// How many messages may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// At most this many.
    UpTo(NonZeroU32),
    /// None before this has passed, or something changes.
    Wait(Duration),
    /// None until a call ends.
    WaitForCall,
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
}

impl Blame {
    /// Nothing is known yet.
    pub fn new(options: BlameOptions) -> Self {
        Self {
            breaker: Breaker::new(options.breaker),
            neighbours: Neighbours::default(),
            limit: Limit::new(options.concurrency),
            slow: SlowSlots::default(),
            in_flight: 0,
            entered: 0,
            succeeded: false,
        }
    }

    /// How many messages may be taken now. Nothing changes by asking.
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

    /// Lets a message through.
    ///
    /// # Errors
    ///
    /// How long it should wait instead.
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

    /// Notes how a call ended, and says whose fault that is. `code` is kept for display, `chance` is in [0, 1).
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

    /// Gives a call back that ended without an outcome: shutdown, a lost lease.
    pub fn abandon(&mut self, call: Call) {
        self.ended(&call);
        if let Some(round) = call.round {
            self.breaker.probe_abandoned(round);
        }
    }

    /// Notes that nothing could be sent to the same host by another route.
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

    /// Notes that another route could send to the same host. If nothing else spoke against it, probe at once.
    pub fn reachable(&mut self, now: Instant) {
        self.breaker.reachable(now);
    }

    /// Ends the pause of an open breaker, so that probes go out at once.
    pub fn probe_now(&mut self, now: Instant) {
        self.breaker.probe_now(now);
    }

    /// How the breaker stands, and why.
    pub fn status(&self, now: Instant) -> BreakerStatus {
        self.breaker.status(now)
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
            CallOutcome::Misdirected if self.breaker.is_known_misdirected() => NOBODY,
            CallOutcome::Misdirected => Judgement::Counts,
            CallOutcome::Gone if self.succeeded => Judgement::Counts,
            CallOutcome::Gone => Judgement::PauseRoute,
        }
    }
}
