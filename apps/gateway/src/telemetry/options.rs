//! What is wanted.

use std::sync::Arc;

use bezoar::{Clock, SystemClock};

/// What the gateway tells about itself, and to whom.
#[derive(Debug, Clone)]
pub struct TelemetryOptions {
    /// The name under which collectors know this program.
    pub service_name: String,
    /// What is written to stderr.
    pub log: LogOptions,
    /// Whether traces are sent; they need an endpoint.
    pub traces: bool,
    /// Whether metrics are kept, for `/metrics` and for the endpoint if there is one.
    pub metrics: bool,
    /// A collector that speaks OTLP over HTTP: `http://localhost:4318`. Credentials belong into
    /// the environment variable `OTEL_EXPORTER_OTLP_HEADERS`.
    pub otlp_endpoint: Option<String>,
    /// By which time since acceptance is measured.
    pub clock: Arc<dyn Clock>,
}

impl Default for TelemetryOptions {
    /// Text logs and metrics; traces as soon as an endpoint is named.
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
    /// How.
    pub format: LogFormat,
    /// What: a level, or levels by target, as in `info,bezoar_runtime=debug`.
    pub filter: String,
}

impl Default for LogOptions {
    /// Text, from `info` on.
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// Not at all.
    Off,
}
