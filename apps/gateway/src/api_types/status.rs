//! The verdict on a gateway.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::named;

/// One verdict, with its reasons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GatewayStatus {
    /// The most severe of the reasons; `ok` if there are none.
    pub verdict: Verdict,
    /// What is wrong, most severe first.
    pub reasons: Vec<StatusReason>,
}

/// Something that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StatusReason {
    /// How bad it is.
    pub severity: Verdict,
    /// The code for programs.
    #[schema(example = "dead-letters")]
    pub code: String,
    /// The text for people.
    #[schema(example = "queue results has 12 dead letters")]
    pub detail: String,
    /// The queue that it concerns.
    pub queue: Option<String>,
    /// The route that it concerns.
    pub route: Option<String>,
}

named! {
    /// How a gateway is.
    Verdict {
        /// Nothing is wrong.
        Ok = "ok",
        /// Something needs attention.
        Warning = "warning",
        /// Messages are not delivered, or not accepted.
        Critical = "critical",
    } also "unknown"
}

impl Verdict {
    /// A larger number is worse. Unknown is worse than a warning: it may hide anything.
    pub const fn severity(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Unknown => 2,
            Self::Critical => 3,
        }
    }
}
