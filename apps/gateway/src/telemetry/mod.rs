//! What the gateway tells about itself: logs, metrics, traces. Each can be switched off.
//!
//! | file | what |
//! | --- | --- |
//! | `start.rs`, `options.rs` | switching it all on, and off again without losing the last of it |
//! | `logs.rs` | text or JSON on stderr, with a filter that can be changed while running |
//! | `metrics/` | what is counted and measured; Prometheus text and OTLP from one meter |
//! | `trace/` | one trace from acceptance through every attempt, by messaging conventions |
//! | `otlp.rs` | the way to a collector |
//!
//! A body, a header's value or an error's detail is in none of them. Names of queues and routes come
//! from the configuration; ids are those of the message.
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
    BreakerState, CONTENT_TYPE, MeasureLayer, Metrics, QueueGauges, QueueMetrics, RouteMetrics,
    RouteObserver,
};
pub use options::{LogFormat, LogOptions, TelemetryOptions};
pub use start::Telemetry;
pub use trace::{
    Correlation, TRACEPARENT, TraceLayer, accept_span, attempt_span, ended, traceparent,
};
