//! Rejected messages whose dead letters stay on their broker.

use bezoar::catalogue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FailedTry, UncountedFailures};

/// Why a message was rejected, and every attempt before that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Rejection {
    /// The queue of the message.
    pub queue: String,
    /// The message's own id.
    pub message_id: String,
    /// The message's type.
    pub r#type: String,
    /// The message's correlation id.
    pub correlation_id: Option<String>,
    /// When it was rejected.
    pub rejected_at: Timestamp,
    /// Why it was rejected, in words.
    pub reason: String,
    /// Why it was rejected, as a code.
    pub reason_code: String,
    /// How many attempts failed since it was last sent or replayed.
    pub attempts: u64,
    /// How often it was replayed.
    pub replays: u64,
    /// When it last failed since it was sent or replayed.
    pub last_failure_at: Option<Timestamp>,
    /// Failures that did not use up a retry.
    pub uncounted: Option<UncountedFailures>,
    /// The failed tries, oldest first.
    pub history: Vec<FailedTry>,
}

impl From<&catalogue::Rejection> for Rejection {
    fn from(rejection: &catalogue::Rejection) -> Self {
        let ledger = &rejection.ledger;
        Self {
            queue: rejection.queue.to_string(),
            message_id: rejection.message_id.to_string(),
            r#type: rejection.message_type.to_string(),
            correlation_id: rejection.correlation_id.as_ref().map(ToString::to_string),
            rejected_at: rejection.at,
            reason: rejection.reason.to_string(),
            reason_code: rejection.reason.code().to_string(),
            attempts: ledger.failed.into(),
            replays: ledger.replayed.into(),
            last_failure_at: ledger.last_failure_at(),
            uncounted: ledger.uncounted.as_ref().map(Into::into),
            history: ledger.history().iter().map(Into::into).collect(),
        }
    }
}
