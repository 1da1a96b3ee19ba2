//! Messages that Bezoar rejected and whose dead letters stay on their broker.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::{CorrelationId, Invalid, Ledger, MessageId, MessageType, QueueName, Reason, millis};

/// Why a message was rejected, and its attempts. The broker that keeps the dead letter stores neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The queue of the message.
    pub queue: QueueName,
    /// The message's id.
    pub message_id: MessageId,
    /// The message's type.
    pub message_type: MessageType,
    /// The message's correlation id.
    pub correlation_id: Option<CorrelationId>,
    /// When it was rejected.
    pub at: Timestamp,
    /// Why it was rejected.
    pub reason: Reason,
    /// The history of attempts.
    pub ledger: Ledger,
    /// Tells rejections of one time apart.
    pub number: i64,
}

impl Rejection {
    /// Its position in a list.
    pub fn position(&self) -> RejectionPosition {
        RejectionPosition { at: self.at, number: self.number }
    }
}

/// A position in a list of rejections, which are listed newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectionPosition {
    /// When it was rejected.
    pub at: Timestamp,
    /// Tells rejections of one time apart.
    pub number: i64,
}

impl fmt::Display for RejectionPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at.as_millisecond(), self.number)
    }
}

impl FromStr for RejectionPosition {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |text: &str| text.parse::<u64>().ok().and_then(|it| i64::try_from(it).ok());
        let parts = text.split_once('-').and_then(|(at, rest)| Some((number(at)?, number(rest)?)));
        parts
            .map(|(at, number)| Self { at: millis(at), number })
            .ok_or_else(|| Invalid::new("position", "is not one that a list returned"))
    }
}

/// Conditions for rejections. A rejection matches if it meets every condition that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RejectionFilter {
    /// From one of these queues.
    pub queues: Option<Vec<QueueName>>,
    /// With this message id.
    pub message_id: Option<MessageId>,
    /// With this correlation id.
    pub correlation_id: Option<CorrelationId>,
    /// After this position in the list.
    pub after: Option<RejectionPosition>,
}
