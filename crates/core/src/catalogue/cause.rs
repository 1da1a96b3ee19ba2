//! Groups of dead letters that failed the same way.

use jiff::Timestamp;

use super::CauseId;
use crate::{Code, DeadLetterId, FailureKind, MessageType, QueueName};

/// A group of dead letters that failed the same way. Nothing of it is sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What it is known by.
    pub id: CauseId,
    /// Where they were set aside.
    pub queue: QueueName,
    /// Their type.
    pub message_type: MessageType,
    /// The kind of the last failure.
    pub kind: FailureKind,
    /// Its code.
    pub code: Code,
    /// How many are here now.
    pub count: u64,
    /// How many there ever were.
    pub ever: u64,
    /// How many came in the present hour.
    pub this_hour: u64,
    /// How many came in the hour before.
    pub last_hour: u64,
    /// When the first came.
    pub first_seen: Timestamp,
    /// When the last came.
    pub last_seen: Timestamp,
    /// The latest few.
    pub samples: Vec<DeadLetterId>,
    /// What people think of it.
    pub state: CauseState,
    /// What they wrote about it, who, and when.
    pub note: Option<(String, String, Timestamp)>,
}

impl Cause {
    /// A line for people, without anything sensitive.
    pub fn title(&self) -> String {
        format!("{} ({}) of {} in {}", self.code, self.kind, self.message_type, self.queue)
    }
}

/// What people think of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CauseState {
    /// Nobody has said anything.
    Open,
    /// Somebody knows of it.
    Acknowledged,
    /// Somebody has mended it.
    Resolved,
    /// It came back after it was mended.
    Regressed,
}

impl CauseState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Acknowledged, Self::Resolved, Self::Regressed];

    /// The state as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Acknowledged => "acknowledged",
            Self::Resolved => "resolved",
            Self::Regressed => "regressed",
        }
    }
}
