//! Why telemetry could not be started, changed or flushed.

use std::error::Error;

/// An error of telemetry. It never affects messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The log filter is invalid.
    #[error("invalid log filter; use a level or target=level, separated by commas")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// The collector's address is invalid. It may contain a token and is not shown.
    #[error("the OTLP endpoint {0}")]
    Endpoint(&'static str),
    /// The exporter could not be created.
    #[error("cannot create the OTLP exporter")]
    Exporter(#[source] Box<dyn Error + Send + Sync>),
    /// The thread that writes the log could not be started.
    #[error("cannot start the thread that writes the log")]
    Log(#[source] std::io::Error),
    /// Logs and traces can be installed only once per process.
    #[error("telemetry was already started in this process")]
    AlreadyStarted,
    /// Buffered data did not reach the collector.
    #[error("the last {signal} did not reach the collector")]
    NotFlushed {
        /// `traces` or `metrics`.
        signal: &'static str,
        /// The cause, if known; otherwise the deadline passed.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}
