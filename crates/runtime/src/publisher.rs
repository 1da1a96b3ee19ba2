//! Sends values as messages.

use std::sync::Arc;

use bezoar_core::{
    Clock, ContentType, Destination, ErrorKind, Invalid, Message, MessageId, MessageType, Outgoing,
    QueueName, SystemClock, Transport, TransportError,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{MessageBuilder, TypedMessage};

/// The maximum number of messages in one call to the transport.
const CHUNK: usize = 256;

/// Turns values into messages and sends them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
}

impl Publisher {
    /// A publisher that sends through `transport` and uses the system clock.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, clock: Arc::new(SystemClock) }
    }

    /// Sets the clock.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sends a value as JSON. Returns the message's id once the transport has stored it durably.
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for an invalid name, or a value that cannot be written as JSON; otherwise the error of the
    /// transport.
    pub async fn send(
        &self,
        queue: impl AsRef<str>,
        message_type: impl AsRef<str>,
        value: &impl Serialize,
    ) -> Result<MessageId, TransportError> {
        self.message_of_type(message_type, value).send_to(queue).await
    }

    /// Sends a value whose Rust type determines the message type.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_message<T: TypedMessage + Serialize>(
        &self,
        queue: impl AsRef<str>,
        value: &T,
    ) -> Result<MessageId, TransportError> {
        self.message(value).send_to(queue).await
    }

    /// Begins a message with `value` as its body, in JSON.
    pub fn message<T: TypedMessage + Serialize>(&self, value: &T) -> MessageBuilder {
        self.message_of_type(T::TYPE, value)
    }

    /// Begins a message of this type with `value` as its body, in JSON.
    pub fn message_of_type(
        &self,
        message_type: impl AsRef<str>,
        value: &impl Serialize,
    ) -> MessageBuilder {
        MessageBuilder::new(self.clone(), self.encode(message_type.as_ref(), value))
    }

    /// Starts a builder with an existing message.
    pub fn prepared(&self, message: Message) -> MessageBuilder {
        MessageBuilder::new(self.clone(), Ok(message))
    }

    /// Sends messages in their order. One result each, in the same order: some may be stored and others not.
    ///
    /// They are sent in chunks of 256. If the future is dropped, those after the current chunk are not sent.
    ///
    /// # Errors
    ///
    /// For each message as [`send`](Self::send).
    pub async fn send_batch(
        &self,
        queue: impl AsRef<str>,
        messages: impl IntoIterator<Item: Into<Outgoing>>,
    ) -> Vec<Result<MessageId, TransportError>> {
        let batch: Vec<Outgoing> = messages.into_iter().map(Into::into).collect();
        let destination = match QueueName::new(queue) {
            Ok(queue) => queue.into(),
            Err(invalid) => {
                return batch.iter().map(|_| Err(self.invalid(invalid.clone()))).collect();
            }
        };
        let mut results = Vec::with_capacity(batch.len());
        for chunk in batch.chunks(CHUNK) {
            results.extend(self.send_chunk(&destination, chunk).await);
        }
        results
    }

    pub(crate) async fn send_one(
        &self,
        queue: &QueueName,
        outgoing: Outgoing,
    ) -> Result<MessageId, TransportError> {
        let mut results = self.send_chunk(&queue.into(), &[outgoing]).await;
        results.pop().unwrap_or_else(|| Err(self.unknown()))
    }

    /// A message for which the transport returned no result may or may not have been stored.
    async fn send_chunk(
        &self,
        to: &Destination,
        chunk: &[Outgoing],
    ) -> Vec<Result<MessageId, TransportError>> {
        let mut sent = self.transport.send(to, chunk).await.into_iter();
        let mut next = || sent.next().unwrap_or_else(|| Err(self.unknown()));
        chunk.iter().map(|outgoing| next().map(|_| outgoing.message.id.clone())).collect()
    }

    fn encode(&self, message_type: &str, value: &impl Serialize) -> Result<Message, Invalid> {
        let message_type = MessageType::new(message_type)?;
        // serde's own text may quote the value, so it is not passed on.
        let body = serde_json::to_vec(value)
            .map_err(|_| Invalid::new("value", "cannot be written as JSON"))?;
        let now = self.now();
        let id = MessageId::generate(now, &mut rand::rng());
        let json = ContentType::new("application/json").expect("a short text");
        Ok(Message::new(id, message_type, now, body).with_content_type(json))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn invalid(&self, invalid: Invalid) -> TransportError {
        self.error(ErrorKind::Invalid(invalid))
    }

    fn unknown(&self) -> TransportError {
        self.error(ErrorKind::OutcomeUnknown)
    }

    fn error(&self, kind: ErrorKind) -> TransportError {
        TransportError::new(kind, self.transport.capabilities().transport, "send")
    }
}
