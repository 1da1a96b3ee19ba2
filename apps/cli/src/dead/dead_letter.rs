//! A dead letter, as the gateway tells of it.

use serde::Deserialize;

use crate::humanize;

/// What is known at a glance.
#[derive(Debug, Deserialize)]
pub(super) struct DeadLetterSummary {
    pub(super) id: i64,
    pub(super) queue: String,
    pub(super) message_id: String,
    pub(super) r#type: String,
    pub(super) correlation_id: Option<String>,
    pub(super) reason: String,
    pub(super) error: Option<LastError>,
    pub(super) attempts: Option<u64>,
    pub(super) replayed: Option<u64>,
    pub(super) body_bytes: Option<u64>,
    pub(super) at: String,
    pub(super) cause: Option<String>,
    pub(super) state: Option<String>,
    /// The one that it is part of, if it is taken.
    pub(super) operation: Option<i64>,
    pub(super) edited_from: Option<i64>,
}

impl DeadLetterSummary {
    /// `open`, `taken by 7`
    pub(super) fn state(&self) -> String {
        let state = self.state.as_deref().unwrap_or(humanize::UNKNOWN);
        match self.operation {
            Some(operation) => format!("{state} by {operation}"),
            None => state.to_owned(),
        }
    }
}

/// What the last attempt met with.
#[derive(Debug, Deserialize)]
pub(super) struct LastError {
    pub(super) kind: String,
    pub(super) code: String,
}

/// All that may be known without looking at the body.
#[derive(Debug, Deserialize)]
pub(super) struct DeadLetterDetails {
    #[serde(flatten)]
    pub(super) summary: DeadLetterSummary,
    pub(super) reason_code: Option<String>,
    pub(super) time: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) causation_id: Option<String>,
    pub(super) acquired: Option<u64>,
    pub(super) released: Option<u64>,
    /// Failures that used up no retry.
    #[serde(default)]
    pub(super) uncounted: Option<UncountedFailures>,
    #[serde(default)]
    pub(super) history: Vec<FailedTry>,
    #[serde(default)]
    pub(super) headers: Vec<HeaderSize>,
    /// Its edited versions, and the one that it was made from.
    #[serde(default)]
    pub(super) lineage: Vec<i64>,
    /// The replays that it took part in.
    #[serde(default)]
    pub(super) operations: Vec<i64>,
}

/// Failures that used up no retry, in one summary.
#[derive(Debug, Deserialize)]
pub(super) struct UncountedFailures {
    pub(super) count: u64,
    pub(super) suspected: u64,
    pub(super) first: String,
    pub(super) last: String,
    pub(super) code: String,
}

/// One failed try.
#[derive(Debug, Deserialize)]
pub(super) struct FailedTry {
    pub(super) generation: u64,
    pub(super) attempt: u64,
    pub(super) r#try: u64,
    pub(super) started_at: String,
    pub(super) duration_ms: u64,
    pub(super) kind: String,
    pub(super) code: String,
    pub(super) detail_bytes: u64,
}

/// A header without its value.
#[derive(Debug, Deserialize)]
pub(super) struct HeaderSize {
    pub(super) name: String,
    pub(super) bytes: u64,
}
