//! A dead letter as lists show it, and the full record.

use jiff::Timestamp;

use super::{CauseId, ListPosition, OperationId};
use crate::{
    Code, CorrelationId, DeadLetterId, FailureKind, Message, MessageId, MessageType, QueueName,
    Reason,
};

/// A dead letter without anything sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterSummary {
    /// The id of the dead letter.
    pub id: DeadLetterId,
    /// The queue in which it was dead-lettered, and to which a replay sends it.
    pub queue: QueueName,
    /// The message's own id, which may repeat.
    pub message_id: MessageId,
    /// The message's type.
    pub message_type: MessageType,
    /// The message's correlation id.
    pub correlation_id: Option<CorrelationId>,
    /// The kind of the last failure; unknown if no handler failed.
    pub kind: FailureKind,
    /// The code of the last failure, or of the reason if there is none.
    pub code: Code,
    /// The cause that groups it with others.
    pub cause: CauseId,
    /// Why it was dead-lettered, in words.
    pub reason: String,
    /// When the message was created.
    pub time: Timestamp,
    /// When it was dead-lettered. An intake or an import keeps the original time.
    pub died_at: Timestamp,
    /// When it arrived in this store: the same time unless it was taken in or imported. Expiry counts from this
    /// time.
    pub arrived_at: Timestamp,
    /// How many attempts failed since it was last sent or replayed.
    pub attempts: u32,
    /// How often it was replayed.
    pub replayed: u32,
    /// The size of its body.
    pub body_bytes: u64,
    /// Whether something is being done about it.
    pub state: DeadLetterState,
    /// The dead letter that it is an edited version of.
    pub edited_from: Option<DeadLetterId>,
    /// The dead letter that it may be a copy of: a broker delivered it again, and cannot say whether it is the same.
    pub possible_copy_of: Option<DeadLetterId>,
}

impl DeadLetterSummary {
    /// Its position in a list, to continue after it.
    pub fn position(&self) -> ListPosition {
        ListPosition { died_at: self.died_at, id: self.id }
    }
}

/// Whether something is being done about a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterState {
    /// Nobody has acted on it yet.
    Open,
    /// It is part of an operation that has not ended.
    Held(OperationId),
    /// There is an edited version of it.
    Edited,
    /// It is an edited version that somebody else must approve.
    Unapproved,
}

impl DeadLetterState {
    /// The name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Held(_) => "held",
            Self::Edited => "edited",
            Self::Unapproved => "unapproved",
        }
    }
}

/// Everything about a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterRecord {
    /// The summary that lists show.
    pub entry: DeadLetterSummary,
    /// The message with its ledger. The types of sensitive values hide them.
    pub message: Message,
    /// Why it was dead-lettered.
    pub reason: Reason,
    /// Its earlier and later edited versions, the original first.
    pub versions: Vec<DeadLetterId>,
    /// The earlier dead letters of the same message, each replayed and failed again, oldest first.
    pub earlier: Vec<DeadLetterId>,
    /// The replays that it was part of, latest last.
    pub operations: Vec<OperationId>,
}

/// A number of dead letters, exact or a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The number, or a lower bound.
    pub count: u64,
    /// Whether the number is exact.
    pub exact: bool,
}
