//! A message: its envelope, its body and its ledger.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::{
    Body, ContentType, CorrelationId, HeaderValue, Invalid, Ledger, MessageId, MessageType,
    OrderingKey, millis,
};

/// Header values by name, in the order of their names.
pub type Headers = BTreeMap<String, HeaderValue>;

/// A message with its ledger.
///
/// Everything except the ledger stays as the sender set it, through every retry and replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The identity that it keeps through retries and replays.
    pub id: MessageId,
    /// The type, by which a router picks the handler.
    pub message_type: MessageType,
    /// Links it to the other messages of one business event.
    pub correlation_id: Option<CorrelationId>,
    /// The message whose handling caused this one.
    pub causation_id: Option<MessageId>,
    /// The media type of the body, if the sender named one.
    pub content_type: Option<ContentType>,
    /// Values by name, for the handler and for middleware.
    pub headers: Headers,
    /// When it was created, to the millisecond.
    pub time: Timestamp,
    /// When it expires, to the millisecond: from then on it is dead-lettered instead of handled. Only
    /// supported where [`Capabilities::time_to_live`](crate::Capabilities::time_to_live) says so.
    pub expires_at: Option<Timestamp>,
    /// Messages with the same key are handled in order: each waits until every earlier one in its queue
    /// is completed or dead-lettered. Only supported where
    /// [`Capabilities::ordering_keys`](crate::Capabilities::ordering_keys) says so.
    pub ordering_key: Option<OrderingKey>,
    /// The payload.
    pub body: Body,
    /// Its history: attempts, failures, replays.
    pub ledger: Ledger,
}

impl Message {
    /// The maximum number of headers.
    pub const MAX_HEADERS: usize = 1_000;
    /// The maximum size of all headers together, names and values, in bytes.
    pub const MAX_HEADER_BYTES: usize = 64 * 1024;

    /// A hash of the body. A message with a known id and another hash is a different message.
    pub fn body_digest(&self) -> u64 {
        let digest = Sha256::digest(self.body.reveal());
        u64::from_be_bytes(std::array::from_fn(|place| digest[place]))
    }

    /// A message without headers and without history.
    pub fn new(
        id: MessageId,
        message_type: MessageType,
        time: Timestamp,
        body: impl Into<Body>,
    ) -> Self {
        Self {
            id,
            message_type,
            correlation_id: None,
            causation_id: None,
            content_type: None,
            headers: Headers::new(),
            time: millis(time.as_millisecond()),
            expires_at: None,
            ordering_key: None,
            body: body.into(),
            ledger: Ledger::default(),
        }
    }

    /// Sets the correlation id.
    pub fn with_correlation_id(mut self, id: CorrelationId) -> Self {
        self.correlation_id = Some(id);
        self
    }

    /// Marks this message as an effect of `cause`: sets the causation id and copies the correlation
    /// id.
    pub fn caused_by(mut self, cause: &Self) -> Self {
        self.causation_id = Some(cause.id.clone());
        self.correlation_id = self.correlation_id.or_else(|| cause.correlation_id.clone());
        self
    }

    /// Sets the media type.
    pub fn with_content_type(mut self, content_type: ContentType) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// Replaces the body.
    pub fn with_body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces the time of creation.
    pub fn with_time(mut self, time: Timestamp) -> Self {
        self.time = millis(time.as_millisecond());
        self
    }

    /// Replaces the ledger.
    pub fn with_ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = ledger;
        self
    }

    /// Sets the time from which the message is dead-lettered instead of handled.
    pub fn with_expires_at(mut self, time: Timestamp) -> Self {
        self.expires_at = Some(millis(time.as_millisecond()));
        self
    }

    /// Sets the key that orders this message with others.
    pub fn with_ordering_key(mut self, key: OrderingKey) -> Self {
        self.ordering_key = Some(key);
        self
    }

    /// Whether the message has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Adds a header; replaces an earlier value of the same name.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<HeaderValue>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Checks that the headers stay within the limits that apply to every transport.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for more than [`MAX_HEADERS`](Self::MAX_HEADERS), for more than
    /// [`MAX_HEADER_BYTES`](Self::MAX_HEADER_BYTES) in total, or for a header without a name.
    pub fn check_headers(&self) -> Result<(), Invalid> {
        if self.headers.contains_key("") {
            return Err(Invalid::new("header", "has no name"));
        }
        let limit = Self::MAX_HEADERS;
        if self.headers.len() > limit {
            let problem = format!("are too many, at most {limit} are accepted");
            return Err(Invalid::new("headers", problem));
        }
        let size: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let limit = Self::MAX_HEADER_BYTES;
        if size > limit {
            let problem = format!("are too large, at most {limit} bytes in all are accepted");
            return Err(Invalid::new("headers", problem));
        }
        Ok(())
    }
}

impl AsRef<Message> for Message {
    fn as_ref(&self) -> &Message {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &'static str) -> Message {
        let (id, message_type) =
            (MessageId::new("m-1").unwrap(), MessageType::new("lab.result").unwrap());
        Message::new(id, message_type, millis(1_000), body)
    }

    #[test]
    fn debug_shows_no_body_and_no_header_value() {
        let shown = format!("{:?}", message("CANARY").with_header("name", "CANARY"));
        assert!(!shown.contains("CANARY"), "{shown}");
        assert!(shown.contains("lab.result") && shown.contains("m-1"), "{shown}");
    }

    #[test]
    fn an_effect_keeps_the_correlation_of_its_cause() {
        let cause = message("").with_correlation_id(CorrelationId::new("c-7").unwrap());
        let effect = message("").caused_by(&cause);
        assert_eq!(effect.causation_id, Some(cause.id.clone()));
        assert_eq!(effect.correlation_id, cause.correlation_id);
    }

    #[test]
    fn headers_are_bounded() {
        assert!(message("").with_header("a", "b").check_headers().is_ok());
        let huge = message("").with_header("a", "b".repeat(Message::MAX_HEADER_BYTES));
        assert!(huge.check_headers().unwrap_err().to_string().contains("at most 65536 bytes"));
        let many = |count| (0..count).fold(message(""), |it, n| it.with_header(n.to_string(), ""));
        assert!(many(Message::MAX_HEADERS).check_headers().is_ok());
        let one_more = many(Message::MAX_HEADERS + 1).check_headers();
        assert!(one_more.unwrap_err().to_string().contains("at most 1000 "));
        assert!(message("").with_header("", "b").check_headers().is_err());
    }
}
