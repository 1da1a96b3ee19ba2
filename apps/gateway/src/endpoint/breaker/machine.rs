//! The breaker as a pure state machine: time and chance are arguments.

use std::{num::NonZeroU32, time::Duration};

use tokio::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// How many failures in a row open it.
    pub failures: NonZeroU32,
    /// The first pause; it doubles with every probe that fails.
    pub first_pause: Duration,
    /// The longest pause, at most a day, before up to a tenth of it is added by chance, so that gateways which lost an
    /// endpoint together do not probe it together.
    pub longest_pause: Duration,
}

impl Default for BreakerOptions {
    /// 5 failures; from 1 s to a minute.
    fn default() -> Self {
        Self {
            failures: NonZeroU32::new(5).expect("5 is not 0"),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// No pause is longer, whatever was configured or asked for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What a breaker does at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything may pass.
    Closed,
    /// Nothing may pass.
    Open {
        /// How long until one may try.
        probe_in: Duration,
    },
    /// One tries, the others wait for how that ends.
    HalfOpen,
}

impl BreakerState {
    /// The state as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// How a call that was let through ended, as far as the endpoint is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::endpoint) enum Verdict {
    /// It works.
    Up,
    /// It answers, about this message only.
    Answers,
    /// It does not work, and may have said how long to leave it alone.
    Down {
        /// The least pause, should one begin now.
        at_least: Duration,
    },
}

/// Leave to make one call, of the time since the breaker last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    Open { until: Instant },
    Probing,
}

/// Whether calls may be made, by how earlier ones ended.
#[derive(Debug)]
pub(super) struct Machine {
    options: BreakerOptions,
    phase: Phase,
    /// Raised with every change, so that calls of an earlier phase are known when they end. While a probe
    /// runs its ticket is the only one of the present number.
    changes: u64,
    failures: u32,
    pause: Duration,
}

impl Machine {
    pub(super) fn new(mut options: BreakerOptions) -> Self {
        options.longest_pause = options.longest_pause.min(LONGEST);
        options.first_pause = options.first_pause.min(options.longest_pause);
        let pause = options.first_pause;
        Self { options, phase: Phase::Closed, changes: 0, failures: 0, pause }
    }

    /// Whether a call may be made, or how long to wait; nothing changes by asking.
    pub(super) fn check(&self, now: Instant) -> Result<(), Duration> {
        match self.phase {
            Phase::Closed => Ok(()),
            Phase::Open { until } if until <= now => Ok(()),
            _ => Err(self.wait(now)),
        }
    }

    /// Leave to make a call, or how long to wait.
    pub(super) fn enter(&mut self, now: Instant) -> Result<Ticket, Duration> {
        self.check(now)?;
        if self.phase != Phase::Closed {
            self.change(Phase::Probing);
        }
        Ok(Ticket(self.changes))
    }

    /// Notes how a call ended. If that must not count against its message, says how long it should wait.
    pub(super) fn leave(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        now: Instant,
        chance: f64,
    ) -> Option<Duration> {
        let current = ticket.0 == self.changes;
        match (self.phase, verdict) {
            (Phase::Closed, Verdict::Up) if current => self.failures = 0,
            (Phase::Closed, Verdict::Down { at_least }) if current => {
                self.failures += 1;
                if self.failures >= self.options.failures.get() {
                    self.open(now, at_least, chance);
                }
            }
            (Phase::Probing, Verdict::Up | Verdict::Answers) if current => self.close(),
            (Phase::Probing, Verdict::Down { at_least }) if current => {
                self.pause = (self.pause * 2).min(self.options.longest_pause);
                self.open(now, at_least, chance);
                return Some(self.wait(now));
            }
            (Phase::Open { .. } | Phase::Probing, Verdict::Down { .. }) => {
                return Some(self.wait(now));
            }
            _ => (),
        }
        None
    }

    /// Notes that a call ended without a verdict: a probe is anybody's again, at once.
    pub(super) fn abandon(&mut self, ticket: Ticket, now: Instant) {
        if self.phase == Phase::Probing && ticket.0 == self.changes {
            self.change(Phase::Open { until: now });
        }
    }

    pub(super) fn state(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { until } => BreakerState::Open { probe_in: until.duration_since(now) },
            Phase::Probing => BreakerState::HalfOpen,
        }
    }

    /// Changes with every change of state.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    fn open(&mut self, now: Instant, at_least: Duration, chance: f64) {
        let pause = self.pause.mul_f64(1.0 + 0.1 * chance).max(at_least.min(LONGEST));
        self.change(Phase::Open { until: now + pause });
    }

    fn close(&mut self) {
        self.failures = 0;
        self.pause = self.options.first_pause;
        self.change(Phase::Closed);
    }

    fn change(&mut self, phase: Phase) {
        self.phase = phase;
        self.changes += 1;
    }

    /// How long a message should wait: to the next probe, or for the running one.
    fn wait(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Closed => Duration::ZERO,
            Phase::Open { until } => until.duration_since(now),
            Phase::Probing => self.options.first_pause,
        }
    }
}
