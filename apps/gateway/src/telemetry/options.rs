//! Options of telemetry.

use std::sync::Arc;

use bezoar::{Clock, SystemClock};

/// What is recorded, and where it is sent.
#[derive(Debug, Clone)]
pub struct TelemetryOptions {
    /// The service name in collectors.
    pub service_name: String,
    /// What is written to stderr.
    pub log: LogOptions,
    /// Whether traces are sent; requires an endpoint.
    pub traces: bool,
    /// Whether metrics are recorded, for `/metrics` and for the endpoint, if there is one.
    pub metrics: bool,
    /// An OTLP collector over HTTP: `http://localhost:4318`. Credentials belong in the environment variable
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub otlp_endpoint: Option<String>,
    /// The clock for the time since acceptance.
    pub clock: Arc<dyn Clock>,
}

impl Default for TelemetryOptions {
    /// Text logs and metrics; traces if an endpoint is set.
    fn default() -> Self {
        Self {
            service_name: "bezoar".to_owned(),
            log: LogOptions::default(),
            traces: true,
            metrics: true,
            otlp_endpoint: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// What is written to stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// The format.
    pub format: LogFormat,
    /// A level, or levels by target: `info,bezoar_runtime=debug`.
    pub filter: String,
}

impl Default for LogOptions {
    /// Text at `info`.
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// No log.
    Off,
}
