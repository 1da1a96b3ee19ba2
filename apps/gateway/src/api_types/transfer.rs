//! Export and import of dead letters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeadLetterFilter, reading};

/// Exports dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
    /// The reason, recorded in the audit log.
    pub reason: String,
    /// Which dead letters; all if absent.
    #[serde(default, deserialize_with = "reading::filter")]
    pub filter: DeadLetterFilter,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Imported {
    /// How many dead letters were added.
    pub imported: u64,
    /// How many were in the store already.
    pub known_already: u64,
}
