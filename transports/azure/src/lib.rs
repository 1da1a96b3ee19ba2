//! Queues on Azure Storage Queue.

mod admin;
mod connection;
mod consuming;
mod dead_letters;
mod error;
mod in_parallel;
mod options;
mod transport;
mod unreadable;
mod wire;

pub use connection::account::Account;
pub use error::LONGEST_DELAY;
pub use options::{ErrorTexts, ForeignText, InvalidOptions, Limits, Options};
pub use transport::AzureTransport;
