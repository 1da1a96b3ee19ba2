//! A dead letter as the gateway's API returns it.

use bezoar::{DeadLetterId, InvalidId, MessageId, catalogue::OperationId};
use serde::Deserialize;

use crate::{humanize, shell};

/// Parses the id of a dead letter; an error says what to do with an id of another kind.
pub(super) fn id(text: &str) -> Result<DeadLetterId, String> {
    text.parse().map_err(|error: InvalidId| match text.parse::<OperationId>() {
        Ok(operation) => format!("{error}; use `bezoar dead replays {operation}`"),
        Err(_) if MessageId::new(text).is_ok() && !text.starts_with("dl_") => {
            let text = shell::quote(text);
            format!("{error}; find a message with `bezoar dead list --message-id {text}`")
        }
        Err(_) => error.to_string(),
    })
}

/// A dead letter in a list.
#[derive(Debug, Deserialize)]
pub(super) struct DeadLetterSummary {
    pub(super) id: String,
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
    /// The operation that holds it, if any.
    pub(super) operation: Option<String>,
    pub(super) edited_from: Option<String>,
    /// The dead letter that it may be a copy of.
    pub(super) possible_copy_of: Option<String>,
}

impl DeadLetterSummary {
    /// `open`, `held by op_209aaw0b`
    pub(super) fn state(&self) -> String {
        let state = self.state.as_deref().unwrap_or(humanize::UNKNOWN);
        match &self.operation {
            Some(operation) => format!("{state} by {operation}"),
            None => state.to_owned(),
        }
    }
}

/// The last failure.
#[derive(Debug, Deserialize)]
pub(super) struct LastError {
    pub(super) kind: String,
    pub(super) code: String,
}

/// Everything except body, header values and error texts.
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
    /// When it last failed since it was sent or replayed.
    #[serde(default)]
    pub(super) last_failure_at: Option<String>,
    /// Failures that did not use up a retry.
    #[serde(default)]
    pub(super) uncounted: Option<UncountedFailures>,
    #[serde(default)]
    pub(super) history: Vec<FailedTry>,
    /// Where it was published to on its broker.
    #[serde(default)]
    pub(super) origin: Option<Origin>,
    #[serde(default)]
    pub(super) headers: Vec<HeaderSize>,
    /// Its edited versions, and the one it was edited from.
    #[serde(default)]
    pub(super) lineage: Vec<String>,
    /// The dead letters that it was before: each was replayed and failed again.
    #[serde(default)]
    pub(super) earlier: Vec<String>,
    /// The replays that included it.
    #[serde(default)]
    pub(super) operations: Vec<String>,
}

/// The exchange and routing key of a message on its broker.
#[derive(Debug, Deserialize)]
pub(super) struct Origin {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) vhost: String,
}

/// A summary of the failures that did not use up a retry.
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

/// The name and size of a header.
#[derive(Debug, Deserialize)]
pub(super) struct HeaderSize {
    pub(super) name: String,
    pub(super) bytes: u64,
}
