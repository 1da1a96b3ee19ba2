//! Queues on RabbitMQ, by AMQP 0-9-1.
//!
//! What is accepted is confirmed by the broker and was routed. Retries wait in queues with a time to live,
//! without a plugin and without holding each other up. Messages of other clients are first-class.
//!
//! | where | what |
//! | --- | --- |
//! | `options.rs`, `connection/` | the broker's address, TLS, and connecting again after a loss |
//! | `topology/` | exchanges, queues and bindings; the delay topology; creating them; what must exist before consuming |
//! | `publishing/` | publishing with confirms |
//! | `consuming/` | subscriptions and their consumers, leases, settling, quarantine |
//! | `dead_letters/` | the dead-letter feed, and replay |
//! | `check/` | `validate`: what is wrong with a queue, its topology and its broker |
//! | `wire/` | a message as AMQP properties and headers, and back (pure) |
//! | `transport.rs`, `admin.rs` | the two contracts, implemented with the above |
//! | `management.rs`, `error.rs` | the management HTTP API; lapin's errors as ours |
//!
//! # What to know
//!
//! - A message that the broker sends again is first counted, in a copy that goes back to its queue. The second
//!   time it is a suspect and goes to `<queue>.quarantine`, from where one is handed out at a time, beside
//!   ordinary ones. The broker does not tell what a process had from what was only prefetched for it: these two
//!   redeliveries count either way, and counting is exact from then on. So a `max_deliveries` of 2 or less may
//!   dead-letter a message that no handler had.
//! - A refused settlement keeps its lease: settle the same receipt again, once what the error names is
//!   repaired. Only after [`OutcomeUnknown`] does the message go back to its queue, a second later.
//! - Delays are queues of their own, of type quorum even for classic work queues: a classic queue may lose what
//!   expires while its broker dies. A broker that dies may move such a message twice; the second is not
//!   flagged as redelivered, because nobody can know.
//! - Headers of other clients that leave no room in a frame for ours are left out when a message goes on, the
//!   largest first; `bezoar-dropped-headers` names them.
//! - A property or header name that is no UTF-8 cannot be read: lapin ends the connection. The queue's worker
//!   pauses with an error that says so until somebody removes that message.
//! - lapin logs returned messages, bodies included. Here it cannot: its threads have no subscriber. One of its
//!   targets remains, `lapin::frames`, which at TRACE shows frames that a broken connection could not send.
//!   Do not enable TRACE for `lapin` where bodies are confidential.
//!
//! [`OutcomeUnknown`]: bezoar_core::ErrorKind::OutcomeUnknown
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use bezoar_core::{QueueAdmin, QueueName};
//! use bezoar_rabbitmq::{Options, RabbitTransport};
//!
//! let transport = RabbitTransport::open(Options::from_url("amqp://guest:guest@localhost:5672/%2f")?)?;
//! let queue = QueueName::new("results")?;
//! transport.provision(&queue).await?;
//! assert_eq!(transport.depth(&queue).await?.ready, Some(0));
//! # Ok(()) }
//! ```

mod admin;
mod check;
mod connection;
mod consuming;
mod dead_letters;
mod error;
mod management;
mod options;
mod publishing;
mod topology;
mod transport;
mod wire;

pub use connection::tls::Pem;
pub use options::{DeadLettering, Options, QueueType};
pub use topology::{Binding, Queue, Topology};
pub use transport::RabbitTransport;
