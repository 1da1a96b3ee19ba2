//! Sending values as messages.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock, ContentType, Destination, ErrorKind, Invalid, Message, MessageId, MessageType, Outgoing,
    QueueName, SystemClock, Transport, TransportError,
};
use serde::Serialize;

/// The most messages that are handed to the transport at a time.
const CHUNK: usize = 256;

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
        let outgoing = Outgoing { delay, ..message.into() };
        let mut results = self.send_chunk(&queue.into(), &[outgoing]).await;
        results.pop().unwrap_or_else(|| Err(self.unknown()))
    }

    /// Sends messages, the first ones first. One result each, in order: some may be stored and others not.
    ///
    /// They go in chunks of 256. If the future is dropped, those after the chunk under way are not sent.
    ///
    /// # Errors
    ///
    /// Of each message as of [`send`](Self::send).
    pub async fn send_batch(
        &self,
        queue: impl AsRef<str>,
        messages: Vec<Message>,
    ) -> Vec<Result<MessageId, TransportError>> {
        let destination = match QueueName::new(queue) {
            Ok(queue) => queue.into(),
            Err(invalid) => {
                return messages.iter().map(|_| Err(self.invalid(invalid.clone()))).collect();
            }
        };
        let batch: Vec<Outgoing> = messages.into_iter().map(Into::into).collect();
        let mut results = Vec::with_capacity(batch.len());
        for chunk in batch.chunks(CHUNK) {
            results.extend(self.send_chunk(&destination, chunk).await);
        }
        results
    }

    /// A transport that owes a result has made no promise.
    async fn send_chunk(
        &self,
        to: &Destination,
        chunk: &[Outgoing],
    ) -> Vec<Result<MessageId, TransportError>> {
        let mut sent = self.transport.send(to, chunk).await.into_iter();
        let mut next = || sent.next().unwrap_or_else(|| Err(self.unknown()));
        chunk.iter().map(|outgoing| next().map(|()| outgoing.message.id.clone())).collect()
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
        self.error(ErrorKind::Invalid(invalid))
    }

    fn unknown(&self) -> TransportError {
        self.error(ErrorKind::OutcomeUnknown)
    }

    fn error(&self, kind: ErrorKind) -> TransportError {
        TransportError::new(kind, self.transport.capabilities().transport, "send")
    }
}
