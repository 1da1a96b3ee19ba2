//! Messages that Bezoar rejected and whose dead letters stay on their broker.

use jiff::Timestamp;

use crate::{CorrelationId, Ledger, MessageId, MessageType, QueueName, Reason};

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
}
