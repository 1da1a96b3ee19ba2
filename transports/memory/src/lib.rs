//! Queues in memory.
//!
//! The reference for the contract: small enough to be checked by reading, and the model for every
//! other transport. Use it for tests and for work that need not survive the process; nothing here is
//! durable.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use bezoar_core::{Message, MessageId, MessageType, QueueAdmin, QueueName, Transport, millis};
//! use bezoar_memory::MemoryTransport;
//!
//! let transport = MemoryTransport::default();
//! let queue = QueueName::new("lab")?;
//! transport.provision(&queue).await?;
//!
//! let message = Message::new(MessageId::new("1")?, MessageType::new("lab.result")?, millis(0), "Hb 14.1");
//! for sent in transport.send(&queue.clone().into(), &[message.into()]).await {
//!     sent?;
//! }
//! assert_eq!(transport.depth(&queue).await?.ready, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod admin;
mod error;
mod feed;
mod options;
mod state;
mod transport;

pub use options::Options;
pub use state::{Place, Transition};
pub use transport::MemoryTransport;
