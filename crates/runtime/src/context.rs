//! The input of a handler.

use std::sync::Arc;

use bezoar_core::{Message, QueueName};

use crate::Extensions;

/// A message on its way through layers to its handler: the request of every `tower` service here. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// The message. Its ledger includes the current delivery.
    pub message: Arc<Message>,
    /// The queue that it was received from.
    pub queue: QueueName,
    /// The number of the attempt, from 1, as the policy counts.
    pub attempt: u32,
    /// Whether a handler may have run on this message before without leaving an outcome.
    pub redelivered: bool,
    /// Values that layers insert and handlers take as [`Extension`](crate::Extension).
    pub extensions: Extensions,
}

impl Context {
    /// The next attempt of a message that was received from `queue`.
    pub fn new(message: Arc<Message>, queue: QueueName) -> Self {
        let attempt = message.ledger.failed.saturating_add(1);
        Self { message, queue, attempt, redelivered: false, extensions: Extensions::default() }
    }
}

impl AsRef<Message> for Context {
    fn as_ref(&self) -> &Message {
        &self.message
    }
}
