//! The antidote to poison messages.
//!
//! A durable queue, typed handlers, sensible retries and dead letters, with nothing to install:
//!
//! ```no_run
#![doc = include_str!("../examples/lab.rs")]
//! ```
//!
//! - [`connect`] opens the queues behind a URL: `sqlite:lab.db` (durable), `memory:` (for tests), and with
//!   the feature `rabbitmq` also `amqp://…`.
//! - A [`Router`] picks a handler by message type; handlers are plain async functions.
//! - A [`Worker`] says how a queue is worked on: concurrency, policy, timeouts, any `tower::Layer`.
//! - What fails is tried again by its [`RetryPolicy`]; what cannot succeed is set aside with its reason
//!   and its history, and can be replayed.
//! - [`testing`] runs workers in virtual time: hours of retries take no time, and no test sleeps.
//!
//! Handlers may see a message twice (a process can die after its work and before saying so), so make
//! them idempotent; [`Context::redelivered`] says when that may be the case.

mod connect;
pub mod testing;

/// The example of the README is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// And so is that of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/dead-letters.md")]
struct DeadLettersGuide;

pub use bezoar_core::{
    Backoff, Body, Capabilities, Clock, Code, ContentType, CorrelationId, DeadLetter,
    DeadLetterFeed, DeadLetterId, DeadLetterIds, DeadLetterPage, Decision, Delivery, Depth,
    Destination, Detail, ErrorKind, FailedTry, Failure, FailureKind, Finding, HeaderValue, Headers,
    Invalid, Jitter, Ledger, Message, MessageId, MessageType, Outgoing, QueueAdmin, QueueName,
    Reason, RetryPolicy, RetryStrategy, Rng, Sensitive, Settlement, Severity, SubscribeOptions,
    Subscription, SystemClock, Transport, TransportError, UncountedFailure, UncountedPolicy,
    UncountedSummary, Verdict,
};
pub use bezoar_core::{blame, catalogue};
pub use bezoar_memory as memory;
pub use bezoar_ops as ops;
#[cfg(feature = "rabbitmq")]
pub use bezoar_rabbitmq as rabbitmq;
pub use bezoar_runtime::{
    AttemptNumber, Context, CorrelationIds, Defect, Event, FailureError, FromMessage, FromRef,
    Gate, Handler, HandlerError, HandlerResult, HandlerService, Host, Json, Log, Observer, Polling,
    Postpone, Publisher, Router, Shutdown, State, UncountedError, Worker,
};
#[cfg(feature = "sqlite")]
pub use bezoar_sqlite as sqlite;
pub use connect::{Bezoar, connect};

/// From now on a panic tells stderr where it happened, and nobody what it said.
///
/// What a handler's panic says is kept with the attempt, hidden. But before that the panic hook of the
/// standard library has printed it, with whatever personal data is in it. This puts another hook in its
/// place, for the whole program; call it first thing in `main`.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        eprintln!("panicked at {}; the text is withheld", place.as_deref().unwrap_or("?"));
    }));
}
