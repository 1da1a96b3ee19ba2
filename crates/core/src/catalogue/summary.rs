//! A dead letter as a list shows it, and everything about one.

use jiff::Timestamp;

use super::{CauseId, ListPosition, OperationId};
use crate::{
    Code, CorrelationId, DeadLetterId, FailureKind, Message, MessageId, MessageType, QueueName,
    Reason,
};

/// A dead letter without anything sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterSummary {
    /// Its identity.
    pub id: DeadLetterId,
    /// Where it was set aside, and where a replay sends it.
    pub queue: QueueName,
    /// The message's own id, which may repeat.
    pub message_id: MessageId,
    /// The message's type.
    pub message_type: MessageType,
    /// What connects it with others.
    pub correlation_id: Option<CorrelationId>,
    /// The kind of the last failure; unknown if no handler failed.
    pub kind: FailureKind,
    /// The code of the last failure, or else of the reason.
    pub code: Code,
    /// Its group.
    pub cause: CauseId,
    /// Why it was set aside, in words.
    pub reason: String,
    /// When the message was made.
    pub time: Timestamp,
    /// When it died, wherever that was: an intake or an import keeps it.
    pub died_at: Timestamp,
    /// When it arrived in this store; the same time, unless it was taken in or imported. Expiry counts from here.
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
    /// Where it is in a list, to go on after it.
    pub fn position(&self) -> ListPosition {
        ListPosition { died_at: self.died_at, id: self.id }
    }
}

/// Whether something is being done about a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterState {
    /// It waits for somebody.
    Open,
    /// It is part of an operation that has not ended.
    Held(OperationId),
    /// There is an edited version of it.
    Edited,
    /// It is an edited version that somebody else must approve.
    Unapproved,
}

impl DeadLetterState {
    /// The state as people write it.
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
    /// What a list shows of it.
    pub entry: DeadLetterSummary,
    /// The message with its ledger; what is sensitive is hidden by its type.
    pub message: Message,
    /// Why it was set aside.
    pub reason: Reason,
    /// Its edited versions, and those that it was made from, the first version first.
    pub versions: Vec<DeadLetterId>,
    /// The dead letters that it was before: each was replayed and failed again, the first one first.
    pub earlier: Vec<DeadLetterId>,
    /// The replays that it took part in, the latest last.
    pub operations: Vec<OperationId>,
}

/// How many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// So many, or at least so many.
    pub count: u64,
    /// Which of the two.
    pub exact: bool,
}
