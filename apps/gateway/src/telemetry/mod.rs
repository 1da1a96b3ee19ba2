//! Logs, metrics and traces. Each can be turned off.
//!
//! | file | contents |
//! | --- | --- |
//! | `start.rs`, `options.rs` | starting everything, and flushing it at shutdown |
//! | `logs.rs` | text or JSON on stderr, with a filter that can be changed at run time |
//! | `log_queue.rs` | the queue in front of stderr: logging never waits for its reader |
//! | `metrics/` | metrics; Prometheus text and OTLP from one meter |
//! | `trace/` | one trace from acceptance through every attempt, by OpenTelemetry's messaging conventions |
//! | `otlp.rs` | export to a collector |
//!
//! None of them contains a body, a header value or an error detail. Names of queues and routes come from the
//! configuration, ids from the message.
//!
//! ```
//! use bezoar_gateway::telemetry::Metrics;
//! use std::time::Duration;
//!
//! let metrics = Metrics::local();
//! metrics.queue("results").accepted(3, Duration::from_millis(2));
//! assert!(metrics.render().contains(r#"bezoar_accepted_total{queue="results"} 3"#));
//! ```

mod error;
mod log_queue;
mod logs;
mod metrics;
mod options;
mod otlp;
mod start;
#[cfg(test)]
mod tests;
mod trace;

pub use error::TelemetryError;
pub use metrics::{
    BreakerState, CONTENT_TYPE, MeasureLayer, Metrics, PoisonRetryMetrics, QueueGauges,
    QueueMetrics, RouteMetrics, RouteObserver,
};
pub use options::{LogFormat, LogOptions, TelemetryOptions};
pub use start::{LogDirectives, Telemetry};
pub use trace::{
    Correlation, TRACEPARENT, TraceLayer, accept_span, attempt_span, ended, traceparent,
};
