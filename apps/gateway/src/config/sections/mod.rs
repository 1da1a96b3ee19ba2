//! The sections of the file, each with its type and how it is read.

mod dead_letters;
mod log;
mod network;
mod retry;
mod route;
mod server;
mod store;
mod telemetry;
mod token;

pub use dead_letters::DeadLetters;
pub use log::{Filter, Log, LogFormat, LogLevel};
pub use network::{Network, Private};
pub use route::Route;
pub use server::Server;
pub use store::Store;
pub use telemetry::Telemetry;
pub use token::{Role, Token};
