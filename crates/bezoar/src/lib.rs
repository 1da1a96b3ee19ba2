//! The antidote to poison messages.
//!
//! A durable queue, typed handlers, sensible retries and dead letters, with nothing to install:
//!
//! ```no_run
#![doc = include_str!("../examples/lab.rs")]
//! ```
//!
//! - [`connect`] opens the queues behind a URL: `sqlite:lab.db` (durable), `memory:` (for tests), and with
//!   the features `postgres`, `rabbitmq` and `azure` also `postgres://…`, `amqp://…` and `azurequeue:…`.
//! - A [`Router`] picks a handler by message type; handlers are plain async functions. Typed errors decide whether
//!   a message is retried: [`Router::classify`].
//! - A [`Worker`] has the settings of a queue: concurrency, policy, timeouts, any `tower::Layer`.
//! - What fails is retried by its [`RetryPolicy`]; what cannot succeed is dead-lettered with its reason
//!   and its history, and can be replayed.
//! - A [`PoisonRetry`] delivers the messages of a poison queue again, with growing delays, until they succeed or become
//!   dead letters.
//! - [`testing`] runs workers in virtual time: hours of retries take no time, and no test sleeps.
//!
//! Handlers may see a message twice (a process can crash after the work and before the outcome is stored), so make
//! them idempotent; [`Context::redelivered`] says when that may be the case.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `sqlite` (default) | the embedded durable queue, `sqlite:PATH` |
//! | `postgres` | queues that several machines share, `postgres://USER@HOST/DATABASE` |
//! | `rabbitmq` | queues on RabbitMQ, `amqp://HOST` |
//! | `azure` | queues on Azure Storage Queue, `azurequeue:CONNECTION_STRING` |
//! | `ops` | what operators do about dead letters: replay at a rate, edit, export, expire |
//! | `anyhow` | typed errors inside an `anyhow::Error` decide, too |

mod connect;
mod drivers;
pub mod testing;

/// The example of the README is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// And so are those of the guides.
#[cfg(all(doctest, feature = "ops"))]
#[doc = include_str!("../../../docs/guide/dead-letters.md")]
struct DeadLettersGuide;

#[cfg(all(doctest, feature = "azure"))]
#[doc = include_str!("../../../docs/guide/poison-retry.md")]
struct PoisonRetryGuide;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/handlers.md")]
struct HandlersGuide;

#[cfg(feature = "azure")]
pub use bezoar_azure as azure;
pub use bezoar_core::{
    Acceptance, Backoff, Body, Capabilities, Classification, Clock, Code, ContentType,
    CorrelationId, Counting, DeadLetter, DeadLetterAccess, DeadLetterFeed, DeadLetterId,
    DeadLetterIds, DeadLetterPage, Decision, Delivery, Depth, Destination, Detail, ErrorKind,
    FailedTry, Failure, FailureError, FailureKind, Finding, HeaderValue, Headers, Invalid,
    InvalidId, Jitter, Leases, Ledger, Message, MessageAccess, MessageId, MessageLocation,
    MessageType, OrderingKey, Outgoing, PeekPage, PeekPosition, QueueAdmin, QueueName, QueueState,
    QueuedMessage, Reason, Receipt, RequestKey, RetryPolicy, RetryStrategy, Rng, Sensitive,
    Settlement, SettlementDurability, Severity, SubscribeOptions, Subscription, SystemClock,
    Transport, TransportError, UncountedFailure, UncountedPolicy, UncountedSummary, Verdict,
};
pub use bezoar_core::{blame, catalogue, poison_retry};
pub use bezoar_memory as memory;
#[cfg(feature = "ops")]
pub use bezoar_ops as ops;
#[cfg(feature = "postgres")]
pub use bezoar_postgres as postgres;
#[cfg(feature = "rabbitmq")]
pub use bezoar_rabbitmq as rabbitmq;
pub use bezoar_runtime::{
    AttemptNumber, Batch, BatchHandler, BatchOptions, BatchResult, Context, CorrelationIds, Event,
    Extension, Extensions, FromMessage, FromRef, Gate, Handler, HandlerError, HandlerResult,
    HandlerService, Host, Json, Log, MessageBuilder, Observer, PoisonRetry, PoisonRun,
    PoisonRunError, Polling, Postpone, Publisher, Router, RunError, RunErrorKind, Shutdown, Snooze,
    State, TypedMessage, TypedParameters, UncountedError, Worker,
};
#[cfg(feature = "sqlite")]
pub use bezoar_sqlite as sqlite;
pub use connect::{Bezoar, connect};
/// The time of messages, leases and failures is of this crate's types.
pub use jiff;
pub use jiff::Timestamp;

/// Makes panics print where they happened, and not their text.
///
/// The text of a handler's panic is kept with the attempt, hidden. But before that the panic hook of the
/// standard library prints it to stderr, with whatever personal data is in it. This replaces the hook for the whole
/// program; call it first in `main`.
pub fn quiet_panics() {
    use std::io::Write;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let place = place.as_deref().unwrap_or("?");
        // `eprintln!` would panic again if stderr is not writable.
        let _ = writeln!(std::io::stderr(), "panicked at {place}; text hidden");
    }));
}
