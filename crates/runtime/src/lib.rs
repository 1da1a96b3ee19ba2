//! Runs handlers on messages, on any transport: router, handlers, workers, lease renewal, shutdown.
//!
//! A [`Worker`] fetches messages from one queue, passes them to a [`Router`] of typed handlers, and
//! settles each: completed, retried after a delay, or dead-lettered. A [`Host`] runs any number of workers
//! until it is told to stop. A [`PoisonRetry`] delivers the messages of a poison queue again, on a schedule. This crate depends on no transport; the crate `bezoar` combines them.

mod batch;
mod consumer;
mod context;
mod events;
mod extensions;
mod extract;
mod fetch;
mod gate;
mod handler;
mod handler_error;
mod host;
mod lease_keeper;
mod log;
mod message_builder;
mod poison_retry;
mod process;
mod publisher;
mod quarantine;
mod router;
mod run_error;
mod runners;
mod settler;
mod shutdown;
mod tasks;
mod typed_message;
mod worker;

pub use batch::{Batch, BatchHandler, BatchOptions, BatchResult};
pub use context::Context;
pub use events::{Event, Observer};
pub use extensions::{Extension, Extensions};
pub use extract::{AttemptNumber, FromMessage, FromRef, Json, State};
pub use gate::Gate;
pub use handler::{Handler, HandlerResult};
pub use handler_error::{HandlerError, Postpone, Snooze, UncountedError};
pub use host::Host;
pub use log::{CorrelationIds, Log};
pub use message_builder::MessageBuilder;
pub use poison_retry::{PoisonRetry, PoisonRun, PoisonRunError};
pub use publisher::Publisher;
pub use router::Router;
pub use run_error::{RunError, RunErrorKind};
pub use shutdown::Shutdown;
pub use typed_message::{TypedMessage, TypedParameters};
pub use worker::{HandlerService, Polling, Worker};
