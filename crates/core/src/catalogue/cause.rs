//! Causes: groups of dead letters that failed the same way.

use jiff::Timestamp;

use super::CauseId;
use crate::{Code, DeadLetterId, FailureKind, MessageType, QueueName};

/// A group of dead letters that failed the same way. It contains nothing sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The id of the cause.
    pub id: CauseId,
    /// The queue of the dead letters.
    pub queue: QueueName,
    /// The type of their messages.
    pub message_type: MessageType,
    /// The kind of the last failure.
    pub kind: FailureKind,
    /// The code of the last failure.
    pub code: Code,
    /// How many dead letters it has now.
    pub count: u64,
    /// How many dead letters it ever had.
    pub ever: u64,
    /// How many were added in the current hour.
    pub this_hour: u64,
    /// How many were added in the previous hour.
    pub last_hour: u64,
    /// When the first one was added.
    pub first_seen: Timestamp,
    /// When the last one was added.
    pub last_seen: Timestamp,
    /// The ids of the latest few dead letters.
    pub samples: Vec<DeadLetterId>,
    /// How operators marked it.
    pub state: CauseState,
    /// A note with its author and time.
    pub note: Option<(String, String, Timestamp)>,
}

impl Cause {
    /// A title that contains nothing sensitive.
    pub fn title(&self) -> String {
        format!("{} ({}) of {} in {}", self.code, self.kind, self.message_type, self.queue)
    }
}

/// How operators marked a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CauseState {
    /// Not marked.
    Open,
    /// Acknowledged: somebody is working on it.
    Acknowledged,
    /// Resolved.
    Resolved,
    /// It occurred again after it was resolved.
    Regressed,
}

impl CauseState {
    /// Every state.
    pub const ALL: &[Self] = &[Self::Open, Self::Acknowledged, Self::Resolved, Self::Regressed];

    /// The name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Acknowledged => "acknowledged",
            Self::Resolved => "resolved",
            Self::Regressed => "regressed",
        }
    }
}
