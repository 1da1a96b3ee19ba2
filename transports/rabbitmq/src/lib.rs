//! Queues on RabbitMQ, over AMQP 0-9-1.
//!
//! An accepted message is confirmed by the broker and in a queue. Retries wait in delay queues, without a plugin and
//! without blocking each other. Messages of other clients are first-class.
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
//! - A redelivered message is first counted, in a copy that goes back to its queue. The second time it is a suspect and
//!   goes to `<queue>.quarantine`, from where one message is handed out at a time, alongside ordinary ones. The broker
//!   cannot tell whether a process had a message or had only prefetched it: these two redeliveries count either way, and
//!   counting is exact from then on. So a `max_deliveries` of 2 or less may dead-letter a message that no handler had.
//! - A message without an id gets one at its first delivery, and keeps it from its first republish on. If a process is
//!   lost before that, the message comes again, flagged as redelivered, with another id.
//! - A refused settlement keeps its lease: settle the same receipt again once the problem that the error names is
//!   repaired. Only after [`OutcomeUnknown`] does the message go back to its queue, a second later.
//! - Delay queues are of type quorum even for classic work queues: a classic queue may lose expired messages if its broker
//!   dies. A broker that dies may move such a message twice; the second copy is not flagged as redelivered, because
//!   the broker does not know.
//! - Headers of other clients that leave no room in a frame for ours are dropped when a message is republished, the
//!   largest first; `bezoar-dropped-headers` names them.
//! - lapin cannot parse a property or header name that is not UTF-8, and closes the connection. The worker of the queue
//!   pauses with an error that says so, until somebody removes the message.
//! - lapin logs returned messages with their bodies; the transport turns that off. One target remains: `lapin::frames`
//!   at TRACE shows frames that a broken connection could not send. Do not enable TRACE for `lapin` where bodies are
//!   confidential.
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

pub use check::topology_check::BrokerFindings;
pub use connection::tls::Pem;
pub use options::{DeadLettering, Options, QueueType, ReturnQueues};
pub use topology::dead_letter_route::DeadLetterNames;
pub use topology::delay_topology::MAX as LONGEST_DELAY;
pub use topology::{Binding, Exchange, Queue, Topology, UNROUTABLE};
pub use transport::RabbitTransport;
pub use wire::origin::Origin;
