//! The audit log.

use bezoar::catalogue::{AuditEntry, AuditHead, Operation, OperationKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::OperationState;

/// A page of the audit log, and the head of the whole log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AuditPage {
    /// The entries of this page.
    pub items: Vec<AuditRecord>,
    /// The cursor of the next page, to pass as `after`; null if this is the last page.
    pub next: Option<String>,
    /// The end of the log, which is stored separately.
    pub head: RecordedHead,
    /// The end of the log that the gateway noted outside of its store; null if it has noted none.
    pub noted: Option<RecordedHead>,
}

/// One audited action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AuditRecord {
    /// The number of the entry, from 1.
    pub number: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Who acted: the name of a token or of a program.
    pub actor: String,
    /// The address of the actor.
    pub address: String,
    /// What was done.
    #[schema(example = "reveal")]
    pub verb: String,
    /// The object of the action.
    #[schema(example = "dead letter dl_g4jmah4z: body")]
    pub target: String,
    /// The reason, in the actor's own words.
    pub reason: String,
    /// The SHA-256 of this entry and of the one before, in hexadecimal digits.
    pub hash: String,
    /// What came of the replay or discard that the entry is about, as it is now; null for other entries. It is not part
    /// of the log, and the hash does not cover it.
    pub outcome: Option<AuditedOutcome>,
}

/// What came of a replay or discard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AuditedOutcome {
    /// The id of the operation.
    pub operation: String,
    /// Its state.
    pub state: OperationState,
    /// How many dead letters it selected.
    pub total: u64,
    /// How many were sent or discarded.
    pub processed: u64,
    /// How many of those sent completed; null for a discard.
    pub completed: Option<u64>,
    /// How many of those sent were dead-lettered again; null for a discard.
    pub failed: Option<u64>,
}

impl From<&Operation> for AuditedOutcome {
    fn from(operation: &Operation) -> Self {
        let is_replay = matches!(operation.kind, OperationKind::Replay { .. });
        Self {
            operation: operation.id.to_string(),
            state: operation.state.into(),
            total: operation.total,
            processed: operation.done,
            completed: is_replay.then_some(operation.completed),
            failed: is_replay.then_some(operation.failed),
        }
    }
}

/// The end of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RecordedHead {
    /// The number of entries.
    pub count: u64,
    /// The hash of the last entry.
    pub hash: String,
}

impl From<&AuditEntry> for AuditRecord {
    fn from(entry: &AuditEntry) -> Self {
        Self {
            number: entry.number,
            recorded_at: entry.at,
            actor: entry.actor.clone(),
            address: entry.address.clone(),
            verb: entry.verb.clone(),
            target: entry.target.clone(),
            reason: entry.reason.clone(),
            hash: entry.hash.to_string(),
            outcome: None,
        }
    }
}

impl From<&AuditHead> for RecordedHead {
    fn from(head: &AuditHead) -> Self {
        Self { count: head.count, hash: head.hash.to_string() }
    }
}
