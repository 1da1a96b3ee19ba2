//! Queues on Azure Storage Queue.

mod connection;
mod error;
mod options;

pub use connection::account::Account;
pub use error::LONGEST_DELAY;
pub use options::{ErrorTexts, ForeignText, InvalidOptions, Limits, Options};
