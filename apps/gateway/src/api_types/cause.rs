//! Causes: dead letters that failed the same way.

use bezoar::catalogue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FailureKind, names::named};

/// A group of dead letters that failed the same way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Cause {
    /// Its id.
    #[schema(example = "v1:0123456789abcdef")]
    pub id: String,
    /// A title that contains nothing sensitive.
    #[schema(example = "http.503 (transient) of lab.result in results")]
    pub title: String,
    /// The queue of the dead letters.
    pub queue: String,
    /// The type of their messages.
    pub r#type: String,
    /// The kind of the last failure.
    pub kind: FailureKind,
    /// The code of the last failure.
    pub code: String,
    /// How many dead letters it has now.
    pub count: u64,
    /// How many dead letters it has had since it was first seen.
    pub count_since_first_seen: u64,
    /// How many were added in the current hour.
    pub added_this_hour: u64,
    /// How many were added in the previous hour.
    pub added_last_hour: u64,
    /// When the first one was added.
    pub first_seen_at: Timestamp,
    /// When the last one was added.
    pub last_seen_at: Timestamp,
    /// The ids of the latest few dead letters.
    pub samples: Vec<String>,
    /// How operators marked it.
    pub state: CauseState,
    /// A note by an operator.
    pub note: Option<Note>,
}

/// A note by an operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Note {
    /// Its text.
    pub text: String,
    /// Who wrote it.
    pub author: String,
    /// When it was written.
    pub written_at: Timestamp,
}

named! {
    /// How operators marked a cause.
    CauseState {
        /// Not marked.
        Open = "open",
        /// Somebody is working on it.
        Acknowledged = "acknowledged",
        /// It is resolved.
        Resolved = "resolved",
        /// It occurred again after it was resolved.
        Regressed = "regressed",
    }
}

/// Marks a cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkCauseRequest {
    /// The new state.
    pub state: CauseMark,
    /// A note. The old one stays if there is none; an empty one removes it.
    #[schema(max_length = 1000)]
    pub note: Option<String>,
}

/// A state that operators may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseMark {
    /// Not marked.
    Open,
    /// Somebody is working on it.
    Acknowledged,
    /// It is resolved.
    Resolved,
}

impl From<&catalogue::Cause> for Cause {
    fn from(cause: &catalogue::Cause) -> Self {
        let note =
            cause.note.clone().map(|(text, author, written_at)| Note { text, author, written_at });
        Self {
            id: cause.id.to_string(),
            title: cause.title(),
            queue: cause.queue.to_string(),
            r#type: cause.message_type.to_string(),
            kind: cause.kind.into(),
            code: cause.code.to_string(),
            count: cause.count,
            count_since_first_seen: cause.ever,
            added_this_hour: cause.this_hour,
            added_last_hour: cause.last_hour,
            first_seen_at: cause.first_seen,
            last_seen_at: cause.last_seen,
            samples: cause.samples.iter().map(ToString::to_string).collect(),
            state: cause.state.into(),
            note,
        }
    }
}

impl From<catalogue::CauseState> for CauseState {
    fn from(state: catalogue::CauseState) -> Self {
        match state {
            catalogue::CauseState::Open => Self::Open,
            catalogue::CauseState::Acknowledged => Self::Acknowledged,
            catalogue::CauseState::Resolved => Self::Resolved,
            catalogue::CauseState::Regressed => Self::Regressed,
            _ => Self::Unknown,
        }
    }
}

impl From<CauseMark> for catalogue::CauseState {
    fn from(mark: CauseMark) -> Self {
        match mark {
            CauseMark::Open => Self::Open,
            CauseMark::Acknowledged => Self::Acknowledged,
            CauseMark::Resolved => Self::Resolved,
        }
    }
}
