//! A circuit breaker: while an endpoint is down its messages wait, and use up no retries.

mod machine;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar::Postponed;
use rand::RngExt;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

pub(super) use self::machine::Verdict;
pub use self::machine::{BreakerOptions, BreakerState};
use self::machine::{Machine, Ticket};

/// A circuit breaker, for all who call one destination. Clones are the same.
///
/// Closed it lets everything pass. After some failures in a row it opens and lets nothing pass; after a
/// pause one call may try, and its end closes the breaker or begins a longer pause.
#[derive(Clone)]
pub struct Breaker(Arc<Shared>);

struct Shared {
    /// For the log.
    destination: String,
    machine: Mutex<Machine>,
    state: watch::Sender<BreakerState>,
}

impl Breaker {
    /// A closed breaker for a destination, which the log names.
    pub fn new(destination: &str, options: BreakerOptions) -> Self {
        let (state, _) = watch::channel(BreakerState::Closed);
        let machine = Mutex::new(Machine::new(options));
        Self(Arc::new(Shared { destination: destination.to_owned(), machine, state }))
    }

    /// What it does at present.
    pub fn state(&self) -> BreakerState {
        self.machine().state(Instant::now())
    }

    /// The state at its last change, and news of the next.
    pub fn changes(&self) -> watch::Receiver<BreakerState> {
        self.0.state.subscribe()
    }

    /// Waits until messages may be taken, and says how many of `free`: all, or one to try.
    /// Dropping the future changes nothing.
    pub async fn admit(&self, free: NonZeroU32) -> NonZeroU32 {
        let mut changes = self.changes();
        loop {
            match self.state() {
                BreakerState::Closed => return free,
                BreakerState::Open { probe_in: Duration::ZERO } => return NonZeroU32::MIN,
                BreakerState::Open { probe_in } => {
                    tokio::select! { _ = changes.changed() => (), () = sleep(probe_in) => () }
                }
                BreakerState::HalfOpen => drop(changes.changed().await),
            }
        }
    }

    /// Whether a message may be taken now: none while it is open or one tries already.
    pub fn admits(&self) -> bool {
        self.check().is_ok()
    }

    /// Leave to make a call, or how long its message should wait.
    pub(super) fn enter(&self) -> Result<Permit, Postponed> {
        let ticket = self.with(|machine| machine.enter(Instant::now())).map_err(Postponed)?;
        Ok(Permit { breaker: self.clone(), ticket: Some(ticket) })
    }

    /// Whether a call may be made, or how long its message should wait; nothing changes by asking.
    pub(super) fn check(&self) -> Result<(), Postponed> {
        self.machine().check(Instant::now()).map_err(Postponed)
    }

    /// Changes the machine, and tells those who wait if that changed its state.
    fn with<T>(&self, act: impl FnOnce(&mut Machine) -> T) -> T {
        let mut machine = self.machine();
        let before = machine.changes();
        let done = act(&mut machine);
        if machine.changes() != before {
            // Under the lock, so that news come in the order of the changes.
            let state = machine.state(Instant::now());
            self.0.log(self.0.state.send_replace(state), state);
        }
        done
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn log(&self, before: BreakerState, now: BreakerState) {
        let destination = self.destination.as_str();
        match (before, now) {
            (BreakerState::Closed, BreakerState::Open { .. }) => tracing::warn!(
                destination,
                "the breaker opened: messages wait, and use up no retries"
            ),
            (BreakerState::Closed, _) => {}
            (_, BreakerState::Closed) => tracing::info!(destination, "the breaker closed"),
            (_, BreakerState::Open { probe_in }) => {
                tracing::info!(destination, next_try = ?probe_in, "the destination is still down");
            }
            (_, BreakerState::HalfOpen) => {}
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new("", BreakerOptions::default())
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Breaker").field(&self.state()).finish()
    }
}

/// Leave to make one call. Dropped without a verdict (shutdown, a lost lease) it gives a probe back, so that
/// the breaker never waits for a call that nobody makes any more.
#[derive(Debug)]
pub(super) struct Permit {
    breaker: Breaker,
    ticket: Option<Ticket>,
}

impl Permit {
    /// Notes how the call ended. If that must not count against its message, says how long it should wait.
    pub(super) fn end(mut self, verdict: Verdict) -> Option<Postponed> {
        let ticket = self.ticket.take()?;
        let chance = rand::rng().random_range(0.0..1.0);
        let now = Instant::now();
        self.breaker.with(|machine| machine.leave(ticket, verdict, now, chance)).map(Postponed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.with(|machine| machine.abandon(ticket, Instant::now()));
        }
    }
}
