//! Messages in queues.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::MessageState;

/// A message in a queue, without its body and the values of its headers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QueuedMessage {
    /// The message's own id, which may repeat.
    pub message_id: String,
    /// The queue it is in.
    pub queue: String,
    /// The message's type.
    pub r#type: String,
    /// Where it is.
    pub state: MessageState,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Since when it is waiting; or when it will be, after its delay or at the end of its lease.
    pub due_at: Timestamp,
    /// How often it was delivered since it was sent or replayed.
    pub deliveries: u64,
    /// How many attempts failed since it was sent or replayed.
    pub attempts: u64,
    /// The size of its body in bytes.
    pub body_bytes: u64,
    /// The names of its headers.
    pub header_names: Vec<String>,
}

impl QueuedMessage {
    pub(crate) fn new(
        queue: &bezoar::QueueName,
        state: bezoar::QueueState,
        message: &bezoar::QueuedMessage,
    ) -> Self {
        Self {
            message_id: message.id.to_string(),
            queue: queue.to_string(),
            r#type: message.message_type.to_string(),
            state: state.into(),
            sent_at: message.time,
            due_at: message.due_at,
            deliveries: message.acquired.into(),
            attempts: message.failed.into(),
            body_bytes: message.body_bytes,
            header_names: message.header_names.clone(),
        }
    }
}
