//! One trace from acceptance through every attempt.
//!
//! The trace of an accepted message is stored in its header [`TRACEPARENT`]; each attempt is a child span, whenever and
//! wherever it runs.

mod layer;
mod spans;
mod traceparent;

use opentelemetry_sdk::trace::SdkTracer;
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

pub use layer::TraceLayer;
pub use spans::{accept_span, attempt_span, ended};
pub use traceparent::{Correlation, TRACEPARENT, traceparent};

/// Marks the spans that are exported. They are not logged.
pub(super) const TARGET: &str = "bezoar_trace";

/// Exports our own spans only: spans and events of other crates may contain anything.
pub(super) fn layer<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(Targets::new().with_target(TARGET, Level::INFO))
}
