//! A message as AMQP properties and headers, and back (pure).
//!
//! Nothing that another client has set is lost: a message is republished with the properties that it came with. Only
//! what the broker would act on again is moved out of its reach: `CC`, `BCC`, `expiration`, `user_id`, and the headers of
//! earlier dead-lettering.
//!
//! | file | what |
//! | --- | --- |
//! | `message.rs` | a message of ours as properties; any message as one of ours |
//! | `republish.rs` | a retried or requeued message: as it came, with a new ledger |
//! | `dead_letter.rs` | the headers of a dead letter: id, time, reason |
//! | `foreign_failure.rs` | what other frameworks say about a failed message |
//! | `origin.rs` | what only AMQP has, packed into headers for a catalogue, and restored for a replay |
//! | `ledger.rs`, `history.rs`, `uncounted.rs`, `timeouts.rs` | the ledger in headers |
//! | `binding.rs` | which message our headers belong to |
//! | `header_names.rs`, `header_table.rs`, `header_size.rs`, `typed_values.rs` | header names, tables, their size in a frame, typed values as JSON |

mod binding;
mod dead_letter;
pub(crate) mod foreign_failure;
mod header_names;
mod header_size;
mod header_table;
mod history;
mod ledger;
mod message;
pub(crate) mod origin;
mod republish;
#[cfg(test)]
mod tests;
mod timeouts;
mod typed_values;
mod uncounted;

use bezoar_core::QueueName;
use bytes::Bytes;
use lapin::{BasicProperties, types::ShortString};

pub(crate) use binding::digest_of as digest;
pub(crate) use dead_letter::{broker_reason, dead_lettered, read_dead_letter};
pub(crate) use message::{Substitutes, read, write};
pub(crate) use republish::{delayed, due, republished, requeued};
pub(crate) use timeouts::{timeouts, with_timeouts};

const PERSISTENT: u8 = 2;

/// A message as it came from the broker, without headers of ours that belong to another message.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    /// The work queue that it belongs to, also while it is in quarantine or dead.
    pub(crate) queue: QueueName,
}

impl Raw {
    /// A message that was delivered from `queue`, or from the quarantine or dead-letter queue beside it.
    pub(crate) fn delivered(delivery: lapin::message::Delivery, queue: QueueName) -> Self {
        let mut raw = Self {
            queue,
            properties: delivery.properties,
            body: delivery.data.into(),
            exchange: delivery.exchange,
            routing_key: delivery.routing_key,
        };
        binding::remove_unbound(&mut raw);
        raw
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Raw([hidden, {} bytes])", self.body.len())
    }
}

/// The first half of a digest in hexadecimal.
pub(crate) fn hex(digest: &[u8; 32]) -> String {
    let (half, _) = digest.split_first_chunk().expect("it is longer");
    format!("{:032x}", u128::from_be_bytes(*half))
}
