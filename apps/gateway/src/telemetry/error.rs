//! Why telemetry could not be started, changed or flushed.

use std::error::Error;

/// Trouble with telemetry. It never stops a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The log filter cannot be read.
    #[error("the log filter is not understood, use a level or target=level, separated by commas")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// The collector's address cannot be used. The address itself may hold a token and is not shown.
    #[error("the OTLP endpoint {0}")]
    Endpoint(&'static str),
    /// The exporter could not be made.
    #[error("the OTLP exporter cannot be made")]
    Exporter(#[source] Box<dyn Error + Send + Sync>),
    /// Logs and traces are installed once in a process.
    #[error("telemetry was started before in this process")]
    AlreadyStarted,
    /// What was still waiting did not reach the collector.
    #[error("the last {signal} did not reach the collector")]
    NotFlushed {
        /// `traces` or `metrics`.
        signal: &'static str,
        /// Why, where it is known; otherwise the deadline passed.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}
