//! Messages to send, and what became of them.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::reading;

/// A message that was accepted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AcceptedMessage {
    /// Its id.
    pub id: String,
    /// Whether it is a repetition: the same message was accepted before, and nothing was stored. Only queues that
    /// compare ids can tell.
    pub repeated: bool,
}

/// One message of a batch. It needs either `body` or `body_base64`.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchItem {
    /// Its id; generated if absent. A message with the same id is accepted once within 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its type; `message` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// Connects related messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The id of the message that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<String>,
    /// The content type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The delay before delivery: 30s, 5m, 1h30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// The headers of the message: at most 1,000, and 64 KiB in all.
    #[serde(
        default,
        deserialize_with = "reading::headers",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub headers: BTreeMap<String, String>,
    /// Any JSON; stored exactly as written.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub body: Option<Box<RawValue>>,
    /// The body in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// Accepts `null` too, which is a valid body.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

impl fmt::Debug for BatchItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchItem").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BatchAnswer {
    /// How many messages were accepted, repetitions included.
    pub accepted: u64,
    /// How many of them are repetitions: the same messages were accepted before, and nothing was stored.
    pub repeated: u64,
    /// How many were refused.
    pub refused: u64,
    /// One result per message, in order.
    pub results: Vec<BatchResult>,
}

/// What became of one message of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BatchResult {
    /// Its id; null if it was refused before it had one.
    pub id: Option<String>,
    /// Whether it is a repetition: the same message was accepted before, and nothing was stored. Only queues that
    /// compare ids can tell.
    pub repeated: bool,
    /// Why it was refused; null if it was accepted.
    pub error: Option<ItemProblem>,
}

/// Why one message of a batch was refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ItemProblem {
    /// The code for programs.
    pub code: String,
    /// The text for people.
    pub detail: String,
}
