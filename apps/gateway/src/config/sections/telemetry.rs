//! `[telemetry]`: what is measured, and where it is sent.

use crate::{
    config::{
        Name,
        names::choice,
        reader::{Section, SectionReader},
    },
    endpoint::EndpointUrl,
};

choice! {
    /// Who may read `/metrics`. A proxy on the same machine makes everybody look like a local caller, so that the address
    /// cannot decide.
    MetricsAccess {
        /// Holders of a viewer token for all queues.
        Token = "token",
        /// Everybody who can connect.
        Open = "open",
    }
}

/// What is measured, and where it is sent. Each part can be turned off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The collector for traces and metrics, by OTLP over HTTP.
    pub otlp_endpoint: Option<EndpointUrl>,
    /// The name of this service in traces and metrics.
    pub service_name: Name,
    /// Whether traces are recorded.
    pub traces: bool,
    /// Whether metrics are recorded, including `/metrics`.
    pub metrics: bool,
    /// Who may read `/metrics`.
    pub metrics_access: MetricsAccess,
    /// Whether correlation ids are logged, and traces continue from callers to endpoints.
    pub correlation: bool,
}

impl TelemetryConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            otlp_endpoint: reader.optional(section, "otlp_endpoint"),
            service_name: reader.or_default(section, "service_name"),
            traces: reader.or_default(section, "traces"),
            metrics: reader.or_default(section, "metrics"),
            metrics_access: reader.or_default(section, "metrics_access"),
            correlation: reader.or_default(section, "correlation"),
        }
    }
}
