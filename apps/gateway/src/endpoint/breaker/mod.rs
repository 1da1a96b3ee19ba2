//! The breaker of a route: when its endpoint may be called, and which failures count against a message.
//!
//! [`Blame`] makes all decisions and is pure: it gets the time and a random number, and answers admit, wait or probe.
//! This module adds what is not pure: a mutex around it, a [`Notify`] that wakes waiting consumers after every change,
//! the log, and the sharing of "host unreachable" between routes to one origin (`origins.rs`). A consumer calls `admit`
//! before it fetches, the endpoint calls `enter` before a request; the [`Permit`] must end with an outcome, and returns
//! a probe to the breaker if it is dropped without one.

mod origins;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bezoar::{
    Code, Context, Postpone,
    blame::{
        Admission, Blame, BlameOptions, BreakerState, BreakerStatus, Call, CallOutcome,
        FailureStreak, Judgement, MessageFacts, Moment,
    },
};
use jiff::Timestamp;
use rand::RngExt;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

pub use self::origins::Origins;
use self::origins::SharedOrigin;

/// The breaker of one route. Clones are the same.
#[derive(Clone)]
pub struct RouteBreaker(Arc<BreakerShared>);

struct BreakerShared {
    /// For the log.
    route: String,
    blame: Mutex<Blame>,
    changed: Notify,
    /// Shared by the routes to the same host.
    origin: Arc<SharedOrigin>,
}

impl RouteBreaker {
    /// A closed breaker for a route, whose origin it does not share.
    pub fn new(route: &str, options: BlameOptions) -> Self {
        Self::at(route, options, Arc::default())
    }

    fn at(route: &str, options: BlameOptions, origin: Arc<SharedOrigin>) -> Self {
        let shared = Arc::new(BreakerShared {
            route: route.to_owned(),
            blame: Mutex::new(Blame::new(options)),
            changed: Notify::new(),
            origin: origin.clone(),
        });
        origin.join(&shared);
        Self(shared)
    }

    /// Its state, and why.
    pub fn status(&self) -> BreakerStatus {
        self.0.blame().status(now())
    }

    /// The calls that failed since the endpoint last answered about a message, if there are any.
    pub fn streak(&self) -> Option<FailureStreak> {
        self.0.blame().streak().cloned()
    }

    /// Waits until messages may be fetched; returns how many, at most `free`. Dropping the future changes nothing.
    pub async fn admit(&self, free: NonZeroU32) -> NonZeroU32 {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable(); // register before checking, so that no change is missed
            let admission = self.0.blame().admit(now());
            match admission {
                Admission::UpTo(most) => return most.min(free),
                Admission::WaitForCall => changed.await,
                Admission::Wait(time) => {
                    tokio::select! { () = changed => (), () = sleep(time) => () }
                }
            }
        }
    }

    /// Whether a message may be fetched now.
    pub fn admits(&self) -> bool {
        matches!(self.0.blame().admit(now()), Admission::UpTo(_))
    }

    /// Ends the pause: the endpoint is probed immediately.
    pub fn probe_now(&self) {
        self.0.change(|blame| blame.probe_now(now()));
    }

    /// Whether a call may be made, or how long its message should wait. Changes nothing.
    pub(super) fn check(&self) -> Result<(), Postpone> {
        match self.0.blame().admit(now()) {
            Admission::Wait(time) => Err(Postpone(time)),
            Admission::UpTo(_) | Admission::WaitForCall => Ok(()),
        }
    }

    /// Admits a message, or returns how long it should wait.
    pub(crate) fn enter(&self, context: &Context) -> Result<Permit, Postpone> {
        let (message, now) = (facts(context), now());
        let call = self.0.blame().enter(message, now).map_err(Postpone)?;
        Ok(Permit { shared: self.0.clone(), call: Some((call, message.key, now)) })
    }
}

impl BreakerShared {
    fn blame(&self) -> MutexGuard<'_, Blame> {
        self.blame.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change, wakes waiting consumers, and logs state changes.
    fn change<T>(&self, act: impl FnOnce(&mut Blame) -> T) -> T {
        let mut blame = self.blame();
        let before = blame.status(now());
        let done = act(&mut blame);
        let after = blame.status(now());
        drop(blame);
        self.changed.notify_waiters();
        self.log(&before, &after);
        done
    }

    fn log(&self, before: &BreakerStatus, after: &BreakerStatus) {
        use BreakerState::{Closed, HalfOpen, Open};
        let route = self.route.as_str();
        let code = after.code.as_ref().map(Code::as_str);
        let next_probe = after.next_probe;
        match (before.state, after.state) {
            (Closed, Open | HalfOpen) => tracing::warn!(
                route,
                code,
                messages = after.messages,
                ?next_probe,
                "breaker opened: messages wait"
            ),
            (Open | HalfOpen, Closed) => {
                tracing::info!(route, open_for = ?before.open_for, "breaker closed");
            }
            (HalfOpen, Open) => {
                tracing::info!(route, code, ?next_probe, "probe failed, breaker stays open")
            }
            _ => (),
        }
    }
}

impl Default for RouteBreaker {
    fn default() -> Self {
        Self::new("", BlameOptions::default())
    }
}

impl fmt::Debug for RouteBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RouteBreaker").field(&self.status()).finish()
    }
}

/// Permission for one call. Dropped without an outcome (shutdown, a lost lease) it returns the probe, so that the
/// breaker never waits for a call that will not be made.
#[derive(Debug)]
#[must_use]
pub(crate) struct Permit {
    shared: Arc<BreakerShared>,
    call: Option<(Call, u64, std::time::Instant)>,
}

impl Permit {
    /// Records the outcome of the call, at `wall`, and returns whether the failure counts.
    pub(crate) fn end(mut self, outcome: CallOutcome, code: &Code, wall: Timestamp) -> Judgement {
        let (call, key, started) = self.call.take().expect("it is taken only here and in drop");
        let (at, chance) = (Moment { now: now(), wall }, chance());
        let judgement = self.shared.change(|blame| blame.leave(call, outcome, code, at, chance));
        match outcome {
            CallOutcome::Unsent => self.shared.origin.unsent(&self.shared, (key, started), code),
            _ => self.shared.origin.reached(&self.shared),
        }
        judgement
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((call, ..)) = self.call.take() {
            self.shared.change(|blame| blame.abandon(call));
        }
    }
}

impl fmt::Debug for BreakerShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerShared").field("route", &self.route).finish_non_exhaustive()
    }
}

/// The facts about a message from its ledger.
fn facts(context: &Context) -> MessageFacts {
    let (message, ledger) = (&context.message, &context.message.ledger);
    let mut hasher = DefaultHasher::new();
    (message.id.as_str(), ledger.replayed).hash(&mut hasher);
    let last = ledger.last().filter(|last| last.generation == ledger.replayed);
    MessageFacts {
        key: hasher.finish(),
        last_failure_at: ledger.last_failure_at(),
        timed_out: last.is_some_and(|last| last.code == Code::TIMEOUT),
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn chance() -> f64 {
    rand::rng().random_range(0.0..1.0)
}
