//! Queues on Azure Storage Queue.
//!
//! A retry updates the message in place, a dead letter is a record in a poison queue that other tools can read, and
//! messages of other programs are first-class. It is not for ordered messages, and bodies above 45 KiB need the claim check.
//!
//! | where | what |
//! | --- | --- |
//! | `options.rs`, `connection/` | the account and its credential, limits, the requests, the names of queues |
//! | `claim_check.rs`, `orphans.rs` | large bodies in Blob Storage; those that no message needs any more |
//! | `consuming/` | fetching, leases, settling |
//! | `dead_letters/` | the dead-letter feed over a poison queue |
//! | `poison_retry.rs` | access to a poison queue for the retry processor |
//! | `wire/` | messages and poison records as texts, and back (pure) |
//! | `uninterrupted.rs` | requests that end although nobody waits for them any more |
//! | `unreadable.rs` | what happens to an envelope that cannot be read |
//! | `transport.rs`, `admin.rs` | the two contracts, implemented with the above |
//! | `error.rs` | Azure's errors as ours |
//!
//! # What to know
//!
//! - Every update of a message changes its pop receipt, and only the latest one counts. Renewing and settling a message
//!   therefore wait for each other, and go on if the caller's future is dropped.
//! - If the answer to a renewal is lost, the new pop receipt is lost with it: the lease is lost, and the message is
//!   delivered again when it expires.
//! - Azure deletes a message after 7 days unless it is told otherwise. This transport always tells it otherwise.
//! - Only [`Options::request_timeout`] bounds a request; nothing is retried here. The worker retries.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use bezoar_azure::{Account, AzureTransport, Options};
//! use bezoar_core::{QueueAdmin, QueueName};
//!
//! let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
//! let transport = AzureTransport::open(Options::new(account))?;
//! let queue = QueueName::new("results")?;
//! transport.provision(&queue).await?;
//! assert_eq!(transport.depth(&queue).await?.total, Some(0));
//! # Ok(()) }
//! ```

mod admin;
mod claim_check;
mod connection;
mod consuming;
mod dead_letters;
mod error;
mod in_parallel;
mod options;
mod orphans;
mod poison_retry;
mod provisioning;
mod transport;
mod uninterrupted;
mod unreadable;
mod wire;

pub use claim_check::ClaimCheck;
pub use connection::{account::Account, identity::Identity, queue_name::check as check_queue_name};
pub use error::LONGEST_DELAY;
pub use options::{ErrorTexts, ForeignText, InvalidOptions, Limits, Options};
pub use poison_retry::{AzurePoisonQueue, PoisonQueueSettings, PoisonSettingsError};
pub use provisioning::NeededNames;
pub use transport::AzureTransport;
