//! Builds a message: its content, when it is delivered, and where it is sent.

use std::{fmt, time::Duration};

use bezoar_core::{
    CorrelationId, HeaderValue, Invalid, Message, MessageId, OrderingKey, Outgoing, QueueName,
    TransportError, millis,
};
use jiff::Timestamp;

use crate::Publisher;

/// A message that is being built; [`send_to`](Self::send_to) sends it.
///
/// If a value is invalid (an empty id, a delay of more than a year), `send_to` fails and nothing is
/// sent.
#[must_use = "call `send_to` to send the message"]
pub struct MessageBuilder {
    publisher: Publisher,
    /// The message so far, or the first invalid value.
    outgoing: Result<Outgoing, Invalid>,
}

impl MessageBuilder {
    pub(crate) fn new(publisher: Publisher, message: Result<Message, Invalid>) -> Self {
        Self { publisher, outgoing: message.map(Into::into) }
    }

    /// Delivers it no sooner than after this time.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|outgoing| outgoing.delay = delay)
    }

    /// Delivers it no sooner than at this time; immediately if the time has passed.
    pub fn at(self, time: Timestamp) -> Self {
        let left = time.duration_since(self.publisher.now());
        self.delay(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    /// Adds a header; replaces an earlier value of the same name.
    pub fn header(self, name: impl Into<String>, value: impl Into<HeaderValue>) -> Self {
        self.set(|outgoing| {
            outgoing.message.headers.insert(name.into(), value.into());
        })
    }

    /// Links it to the other messages of one business event.
    pub fn correlation_id(self, id: impl AsRef<str>) -> Self {
        self.try_set(|outgoing| {
            outgoing.message.correlation_id = Some(CorrelationId::new(id)?);
            Ok(())
        })
    }

    /// Records the message whose handling caused this one, and copies its correlation id unless one was set. Accepts a
    /// handler's [`Context`](crate::Context), or a message.
    pub fn caused_by(self, cause: &impl AsRef<Message>) -> Self {
        self.set(|outgoing| {
            let (message, cause) = (&mut outgoing.message, cause.as_ref());
            message.causation_id = Some(cause.id.clone());
            if message.correlation_id.is_none() {
                message.correlation_id = cause.correlation_id.clone();
            }
        })
    }

    /// Sets the id instead of generating one. [`once`](Self::once) compares ids.
    pub fn id(self, id: impl AsRef<str>) -> Self {
        self.try_set(|outgoing| {
            outgoing.message.id = MessageId::new(id)?;
            Ok(())
        })
    }

    /// If the queue accepted a message with the same id within this time, sending succeeds and nothing is stored
    /// again. Set the [`id`](Self::id) to a value that identifies the event. Only supported where
    /// [`Capabilities::deduplication`](bezoar_core::Capabilities) says so.
    pub fn once(self, within: Duration) -> Self {
        self.set(|outgoing| outgoing.once = Some(within))
    }

    /// Handles it in order: it waits until every earlier message with the same key in its queue is completed or
    /// dead-lettered. Only supported where [`Capabilities::ordering_keys`](bezoar_core::Capabilities) says so.
    pub fn ordering_key(self, key: impl AsRef<str>) -> Self {
        self.try_set(|outgoing| {
            outgoing.message.ordering_key = Some(OrderingKey::new(key)?);
            Ok(())
        })
    }

    /// Dead-letters it instead of handling it once this time has passed. Must be longer than 0.
    /// Only supported where [`Capabilities::time_to_live`](bezoar_core::Capabilities) says so.
    pub fn time_to_live(self, time: Duration) -> Self {
        let now = self.publisher.now();
        self.try_set(|outgoing| {
            let expires_at = now.checked_add(time).ok().filter(|_| !time.is_zero());
            let expires_at = expires_at.ok_or_else(|| {
                Invalid::new("time_to_live", format!("is {time:?}, longer than 0 is required"))
            })?;
            outgoing.message.expires_at = Some(millis(expires_at.as_millisecond()));
            Ok(())
        })
    }

    /// Sends it. Returns the message's id once the queue has stored it durably.
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for an invalid value; otherwise the error of the transport.
    pub async fn send_to(self, queue: impl AsRef<str>) -> Result<MessageId, TransportError> {
        let checked = self.outgoing.and_then(|outgoing| Ok((QueueName::new(queue)?, outgoing)));
        match checked {
            Ok((queue, outgoing)) => self.publisher.send_one(&queue, outgoing).await,
            Err(invalid) => Err(self.publisher.invalid(invalid)),
        }
    }

    /// The message as it would be sent, for [`Publisher::send_batch`].
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for an invalid value.
    pub fn build(self) -> Result<Outgoing, TransportError> {
        self.outgoing.map_err(|invalid| self.publisher.invalid(invalid))
    }

    fn set(self, change: impl FnOnce(&mut Outgoing)) -> Self {
        self.try_set(|outgoing| {
            change(outgoing);
            Ok(())
        })
    }

    fn try_set(mut self, change: impl FnOnce(&mut Outgoing) -> Result<(), Invalid>) -> Self {
        self.outgoing = self.outgoing.and_then(|mut outgoing| {
            change(&mut outgoing)?;
            Ok(outgoing)
        });
        self
    }
}

impl fmt::Debug for MessageBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBuilder").field("outgoing", &self.outgoing).finish_non_exhaustive()
    }
}
