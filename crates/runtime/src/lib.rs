//! The loops over the contract: handlers, router, middleware, worker, host, shutdown.
//!
//! A [`Worker`] takes messages from one queue, runs them through a [`Router`] of typed handlers, and
//! settles each: done, retried after a delay, or set aside as a dead letter. A [`Host`] runs any number
//! of workers until it is told to stop. No transport is named here; see the crate `bezoar` for the whole.

mod consumer;
mod context;
mod events;
mod extract;
mod fetch;
mod gate;
mod handler;
mod host;
mod lease_keeper;
mod log;
mod process;
mod publisher;
mod quarantine;
mod router;
mod settler;
mod shutdown;
mod worker;

pub use context::{Context, FailureError, HandlerError, Postpone, UncountedError};
pub use events::{Event, Observer};
pub use extract::{AttemptNumber, FromMessage, FromRef, Json, State};
pub use gate::Gate;
pub use handler::{Handler, HandlerResult};
pub use host::{Defect, Host};
pub use log::{CorrelationIds, Log};
pub use publisher::Publisher;
pub use router::Router;
pub use shutdown::Shutdown;
pub use worker::{HandlerService, Polling, Worker};
