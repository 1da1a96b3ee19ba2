//! Sending values as messages.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock, ContentType, ErrorKind, Invalid, Message, MessageId, MessageType, Outgoing, QueueName,
    SystemClock, Transport, TransportError,
};
use serde::Serialize;

/// Makes messages of values and sends them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
}

impl Publisher {
    /// Sends through `transport`, by the machine's clock.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, clock: Arc::new(SystemClock) }
    }

    /// The same by another clock.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sends a value as JSON. Returns the message's id once the transport has it durably.
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for a name that is none or a value that is no JSON; otherwise what the transport says.
    pub async fn send(
        &self,
        queue: impl AsRef<str>,
        message_type: impl AsRef<str>,
        value: &impl Serialize,
    ) -> Result<MessageId, TransportError> {
        let message = self.message(message_type.as_ref(), value)?;
        self.send_message(queue, message, Duration::ZERO).await
    }

    /// Sends a message, not to be delivered before `delay` has passed.
    ///
    /// # Errors
    ///
    /// As of [`send`](Self::send).
    pub async fn send_message(
        &self,
        queue: impl AsRef<str>,
        message: Message,
        delay: Duration,
    ) -> Result<MessageId, TransportError> {
        let queue = QueueName::new(queue).map_err(|invalid| self.invalid(invalid))?;
        let id = message.id.clone();
        let outgoing = Outgoing { delay, ..message.into() };
        let mut results = self.transport.send(&queue.into(), std::slice::from_ref(&outgoing)).await;
        results.pop().unwrap_or(Ok(()))?;
        Ok(id)
    }

    /// A new message with `value` as JSON.
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for a type that is none or a value that is no JSON.
    pub fn message(
        &self,
        message_type: &str,
        value: &impl Serialize,
    ) -> Result<Message, TransportError> {
        let message_type =
            MessageType::new(message_type).map_err(|invalid| self.invalid(invalid))?;
        // serde's own text may quote the value, so it is not passed on.
        let body = serde_json::to_vec(value)
            .map_err(|_| self.invalid(Invalid::new("value", "cannot be written as JSON")))?;
        let now = self.clock.now();
        let id = MessageId::generate(now, &mut rand::rng());
        let json = ContentType::new("application/json").expect("a short text");
        Ok(Message::new(id, message_type, now, body).with_content_type(json))
    }

    fn invalid(&self, invalid: Invalid) -> TransportError {
        let transport = self.transport.capabilities().transport;
        TransportError::new(ErrorKind::Invalid(invalid), transport, "send")
    }
}
