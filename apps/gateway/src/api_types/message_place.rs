//! Where a message is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeadLetterSummary, Rejection, names::named};

/// What is known of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MessagePlaces {
    /// The message's own id, which may repeat.
    pub message_id: String,
    /// Where it is, as far as is known.
    pub state: MessageState,
    /// Its dead letters, newest first.
    pub dead_letters: Vec<DeadLetterSummary>,
    /// Its rejections whose dead letters stay on their broker, newest first.
    pub rejections: Vec<Rejection>,
}

named! {
    /// Where a message is.
    MessageState {
        /// It is a dead letter in the store.
        Dead = "dead",
        /// It was rejected, and its dead letter is on its broker.
        DeadOnBroker = "dead_on_broker",
        /// It is not a dead letter. Whether it waits, is being delivered or was delivered is not known.
        NotDead = "not_dead",
    }
}
