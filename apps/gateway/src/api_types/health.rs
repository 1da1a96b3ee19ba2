//! Whether the gateway is alive and ready.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::named;

/// The answer of `/healthz` and `/readyz`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Health {
    /// What is known.
    pub status: HealthState,
}

named! {
    /// The health of a gateway.
    HealthState {
        /// The process is alive.
        Ok = "ok",
        /// Messages are accepted.
        Ready = "ready",
    }
}
