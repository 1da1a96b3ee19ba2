//! A message as properties and headers, and back.
//!
//! What another client has set is never lost: a message that goes on is made from the properties it came
//! with. Only what the broker would act upon again is put out of its reach: `CC`, `expiration`, `user_id`,
//! and the traces of earlier dead-lettering.

mod dead_letter;
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
mod typed_values;
mod uncounted;

use bytes::Bytes;
use lapin::{BasicProperties, types::ShortString};

pub(crate) use dead_letter::{broker_reason, dead_lettered, read_dead_letter};
pub(crate) use message::{read, write};
pub(crate) use republish::{republished, requeued, with_bcc_keys};

const PERSISTENT: u8 = 2;

/// A message as it came from the broker.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
}

impl From<lapin::message::Delivery> for Raw {
    fn from(delivery: lapin::message::Delivery) -> Self {
        Self {
            properties: delivery.properties,
            body: delivery.data.into(),
            exchange: delivery.exchange,
            routing_key: delivery.routing_key,
        }
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Raw([hidden, {} bytes])", self.body.len())
    }
}

/// The first half of a digest, which tells apart as much as is needed.
pub(crate) fn hex(digest: &[u8; 32]) -> String {
    let (half, _) = digest.split_first_chunk().expect("it is longer");
    format!("{:032x}", u128::from_be_bytes(*half))
}
