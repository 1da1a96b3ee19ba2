//! The sections of the file, each with its type and how it is read.

mod dead_letters;
mod log;
mod network;
mod queue;
mod retry;
mod route;
mod server;
mod store;
mod telemetry;
mod token;
mod transport;

pub use dead_letters::DeadLetters;
pub use log::{Filter, Log, LogFormat, LogLevel};
pub use network::{Network, Private};
pub use queue::{Queue, Watch};
pub use route::{DeadLetterMode, Route};
pub use server::Server;
pub use store::Store;
pub use telemetry::Telemetry;
pub use token::{Role, Token};
pub use transport::{QueueKind, Transport};
