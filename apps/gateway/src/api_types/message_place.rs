//! Where a message is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeadLetterSummary, QueuedMessage, Rejection, names::named};

/// What is known of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MessagePlaces {
    /// The message's own id, which may repeat.
    pub message_id: String,
    /// Where it is, as far as is known. If messages in several places have this id: the most serious of their states.
    pub state: MessageState,
    /// The queues it is or was in, as far as is known.
    pub queues: Vec<MessageQueue>,
    /// Its dead letters, newest first.
    pub dead_letters: Vec<DeadLetterSummary>,
    /// Its rejections whose dead letters stay on their broker, newest first.
    pub rejections: Vec<Rejection>,
}

/// A queue that a message is or was in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MessageQueue {
    /// The name of the queue.
    pub queue: String,
    /// Where the message is.
    pub state: MessageState,
    /// The message, if it was found in the queue.
    pub message: Option<QueuedMessage>,
}

named! {
    /// Where a message is.
    MessageState {
        /// It is a dead letter in the store.
        Dead = "dead",
        /// It was rejected, and its dead letter is on its broker.
        DeadOnBroker = "dead_on_broker",
        /// It could be delivered now.
        Waiting = "waiting",
        /// It waits for a delay to pass.
        Delayed = "delayed",
        /// It is being delivered.
        Leased = "leased",
        /// It waits for an earlier message with the same ordering key.
        Blocked = "blocked",
        /// It is waiting, delayed or being delivered; its queue is too long to tell.
        Queued = "queued",
        /// It left its queue within the last 24 hours: it was completed, or its dead letter was removed.
        Done = "done",
        /// Nothing is known of it here: it is on a broker, left its queue earlier or without an id of its own, or never
        /// existed.
        NotKnown = "not_known",
    }
}

impl From<bezoar::QueueState> for MessageState {
    fn from(state: bezoar::QueueState) -> Self {
        match state {
            bezoar::QueueState::Ready => Self::Waiting,
            bezoar::QueueState::Delayed => Self::Delayed,
            bezoar::QueueState::Leased => Self::Leased,
        }
    }
}
