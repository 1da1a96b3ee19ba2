//! Queues in a PostgreSQL database, for several processes and machines.
//!
//! For one machine, `bezoar-sqlite` needs no server. The README says what this transport can do and what is in its
//! tables.
//!
//! | where | what |
//! | --- | --- |
//! | `options.rs`, `error.rs` | the options, and the one place that maps errors |
//! | `database.rs` | connections, transactions, repetition, lost answers |
//! | `schema.rs`, `schema_name.rs`, `../migrations` | creating, upgrading and checking the tables |
//! | `statements.rs`, `../sql` | every statement of the queues |
//! | `transport.rs`, `group_sender.rs`, `send.rs` | sending: what queues up meanwhile shares the next commit |
//! | `subscription.rs`, `claim.rs`, `settle.rs` | receiving, renewing, settling |
//! | `wakes.rs` | signals within the process, notifications between processes |
//! | `admin.rs`, `feed.rs` | queues, depths, dead letters |
//! | `message_access.rs` | finding and listing messages in queues |
//! | `catalogue/` | the operators' part: dead letters by cause, replays, discards, audit log, settings |
//! | `leader.rs` | which of several processes may do what only one may do |
//! | `row.rs`, `columns.rs`, `ledger_json.rs` | messages as rows |
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use bezoar_core::{QueueAdmin, QueueName};
//! use bezoar_postgres::{Options, PostgresTransport};
//!
//! let transport = PostgresTransport::open(Options::from_url("postgres://lab@localhost/lab")?)?;
//! transport.provision(&QueueName::new("results")?).await?;
//! # Ok(())
//! # }
//! ```

mod admin;
mod catalogue;
mod claim;
mod columns;
mod database;
mod error;
mod feed;
mod group_sender;
mod leader;
mod ledger_json;
mod message_access;
mod options;
mod row;
mod schema;
mod schema_name;
mod send;
mod settle;
mod statements;
mod subscription;
mod transport;
mod wakes;

/// The longest delay of a message or a retry.
pub const LONGEST_DELAY: std::time::Duration = bezoar_core::MAX_DELAY;

pub use leader::Leader;
pub use options::{Options, Server};
pub use schema::{SchemaState, schema_script};
pub use transport::PostgresTransport;
