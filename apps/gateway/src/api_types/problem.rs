//! Error responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BatchResult, Holder};

/// Why a request was refused: `application/problem+json` (RFC 9457). Members that do not apply are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Problem {
    /// The code for programs, as a URN.
    #[schema(required, example = "urn:bezoar:problem:not-found")]
    pub r#type: String,
    /// The meaning of the status.
    #[schema(required, example = "Not Found")]
    pub title: String,
    /// The HTTP status.
    #[schema(required, example = 404)]
    pub status: u16,
    /// The text for people.
    #[schema(required)]
    pub detail: String,
    /// The operation that replayed the dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The dead letter that it became when it failed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_dead_letter: Option<String>,
    /// The operations that hold selected dead letters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Holder>,
    /// The expected number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The actual number, where another one was expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// The limit that the request exceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The invalid line of the request, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// One result per message of a batch in which all were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<BatchResult>>,
    /// The queues that exist, where an unknown one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
}

impl Problem {
    const PREFIX: &str = "urn:bezoar:problem:";

    /// The type of a code.
    pub(crate) fn type_of(code: &str) -> String {
        format!("{}{code}", Self::PREFIX)
    }

    /// The code; `None` if the document is of another program.
    pub fn code(&self) -> Option<&str> {
        self.r#type.strip_prefix(Self::PREFIX)
    }
}
