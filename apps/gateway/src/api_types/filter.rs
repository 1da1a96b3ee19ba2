//! Which dead letters to list, replay, discard or export.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{DeadLetterState, FailureKind, reading};

/// Conditions for dead letters: one matches if it meets every condition that is set. The same names work in a query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DeadLetterFilter {
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// In the queue of this route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// With a last failure of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<FailureKind>)]
    #[schema(value_type = Option<FailureKind>)]
    pub kind: Option<String>,
    /// With this code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Of this cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// With this correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// With this message id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Dead-lettered at or after this time, or at most so long ago: 2h, 30m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    #[schema(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    pub since: Option<String>,
    /// Dead-lettered before this time, or longer ago than this: 2h, 30m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    #[schema(pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    pub until: Option<String>,
    /// With at least this many attempts.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "reading::optional_whole")]
    #[param(format = Int64, maximum = 4294967295u32)]
    #[schema(format = Int64, maximum = 4294967295u32)]
    pub min_attempts: Option<u32>,
    /// Replayed at least once (true), or never (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// In this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<DeadLetterState>)]
    #[schema(value_type = Option<DeadLetterState>)]
    pub state: Option<String>,
}

impl DeadLetterFilter {
    /// The conditions that are set, named as in a query.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("queue", self.queue.clone()),
            ("route", self.route.clone()),
            ("type", self.r#type.clone()),
            ("kind", self.kind.clone()),
            ("code", self.code.clone()),
            ("cause", self.cause.clone()),
            ("correlation_id", self.correlation_id.clone()),
            ("message_id", self.message_id.clone()),
            ("since", self.since.clone()),
            ("until", self.until.clone()),
            ("min_attempts", self.min_attempts.map(|number| number.to_string())),
            ("replayed", self.replayed.map(|yes| yes.to_string())),
            ("state", self.state.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
