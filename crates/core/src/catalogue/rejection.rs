//! Messages that were rejected here and whose dead letters stay on their broker.

use jiff::Timestamp;

use crate::{CorrelationId, Ledger, MessageId, MessageType, QueueName, Reason};

/// Why a message was rejected, and every attempt before that. The broker that keeps the dead letter carries neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The queue that the message came from.
    pub queue: QueueName,
    /// The message's id.
    pub message_id: MessageId,
    /// The message's type.
    pub message_type: MessageType,
    /// What connects it with others, if there is something.
    pub correlation_id: Option<CorrelationId>,
    /// When it was rejected.
    pub at: Timestamp,
    /// Why it was rejected.
    pub reason: Reason,
    /// Its attempts.
    pub ledger: Ledger,
}

/// Which rejections; all that is given must fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RejectionFilter {
    /// From one of these queues.
    pub queues: Option<Vec<QueueName>>,
    /// With this message id.
    pub message_id: Option<MessageId>,
    /// With this correlation id.
    pub correlation_id: Option<CorrelationId>,
}
