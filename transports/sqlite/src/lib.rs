//! The embedded durable queue, on SQLite.
//!
//! Every accepted message is on disk: every commit is synced (WAL, `synchronous=FULL`), and
//! concurrent operations share one commit. One thread writes; operations that arrive while it waits
//! for the disk go into its next transaction. Several processes may use the same file.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use bezoar_core::{QueueAdmin, QueueName};
//! use bezoar_sqlite::{Options, SqliteTransport};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("lab.db");
//! let transport = SqliteTransport::open(Options::new(path))?;
//! let queue = QueueName::new("lab")?;
//! transport.provision(&queue).await?;
//! assert_eq!(transport.depth(&queue).await?.ready, Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod admin;
mod catalogue;
mod checksum;
mod database;
mod database_files;
mod error;
mod job;
mod lease;
mod message_access;
mod monotonic_clock;
mod options;
mod ordering;
mod platform;
mod queue_signals;
mod readers;
mod row;
mod session;
mod settle;
mod transport;
mod wal;
mod writer;

pub use database_files::DatabaseFiles;
pub use options::{Options, Synchronous};
pub use transport::SqliteTransport;
