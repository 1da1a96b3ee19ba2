//! Looks at messages that are not dead letters: where one is, and which ones wait. Changes nothing.

use std::{fmt::Debug, num::NonZeroU32};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Invalid, MessageId, MessageType, QueueName, TransportError};

/// Looks into queues without disturbing anybody. Optional: brokers hand messages only to consumers.
#[async_trait]
pub trait MessageAccess: Debug + Send + Sync {
    /// Looks for a message in a queue. Dead letters are not looked at. The work is bounded, so that in a long queue the
    /// answer may be [`Unknown`](MessageLocation::Unknown) or [`Queued`](MessageLocation::Queued) where a full search would
    /// say more.
    async fn locate(
        &self,
        queue: &QueueName,
        id: &MessageId,
    ) -> Result<MessageLocation, TransportError>;

    /// Lists messages in one state, in the order of [`QueuedMessage::due_at`]. A message that changes its state between two
    /// pages may be listed twice or not at all.
    async fn peek(
        &self,
        queue: &QueueName,
        page: PeekPage,
    ) -> Result<Vec<QueuedMessage>, TransportError>;
}

/// Where a message is that is not a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageLocation {
    /// It is in the queue, in this state.
    Found(QueueState, QueuedMessage),
    /// It is in the queue; the queue is too long to tell its state.
    Queued,
    /// It waits for an earlier message with the same ordering key.
    Blocked,
    /// It was accepted, and is in the queue no more: it was completed, or became a dead letter.
    Left,
    /// Nothing is known of it: it was never sent, or left the queue without a trace.
    Unknown,
}

/// The state of a message in a queue. Exhaustive: a transport must support every state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It could be delivered now.
    Ready,
    /// It waits for a delay to pass.
    Delayed,
    /// It is leased to a worker.
    Leased,
}

impl QueueState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Delayed, Self::Leased];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Leased => "leased",
        }
    }
}

/// What is known of a message in a queue, without its body and the values of its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    /// The message's id.
    pub id: MessageId,
    /// The message's type.
    pub message_type: MessageType,
    /// The time of the message.
    pub time: Timestamp,
    /// Since when it is ready, or when it will be: after its delay, or when its lease ends.
    pub due_at: Timestamp,
    /// How often it was delivered.
    pub acquired: u32,
    /// How many attempts failed.
    pub failed: u32,
    /// The size of its body.
    pub body_bytes: u64,
    /// The names of its headers.
    pub header_names: Vec<String>,
    /// Its position in the list.
    pub position: PeekPosition,
}

/// A position in a list of queued messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeekPosition {
    /// [`QueuedMessage::due_at`], in milliseconds since 1970 (UTC).
    pub due_millis: i64,
    /// A number of the transport that tells messages of one time apart.
    pub number: i64,
}

impl std::fmt::Display for PeekPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.due_millis, self.number)
    }
}

impl std::str::FromStr for PeekPosition {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |text: &str| text.parse::<u64>().ok().and_then(|it| i64::try_from(it).ok());
        let parts =
            text.split_once('-').and_then(|(due, rest)| Some((number(due)?, number(rest)?)));
        parts
            .map(|(due_millis, number)| Self { due_millis, number })
            .ok_or_else(|| Invalid::new("position", "is not one that a list returned"))
    }
}

/// Which part of a queue to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeekPage {
    /// The state of the messages.
    pub state: QueueState,
    /// Start after this position; from the beginning if `None`.
    pub after: Option<PeekPosition>,
    /// The maximum number to list.
    pub limit: NonZeroU32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let position = PeekPosition { due_millis: 1_700_000_000_000, number: 7 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for text in ["", "7", "7-", "-7", "a-b", "1--2", "99999999999999999999-1"] {
            assert!(text.parse::<PeekPosition>().is_err(), "{text}");
        }
    }
}
