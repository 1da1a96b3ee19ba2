//! One trace from acceptance through every attempt.
//!
//! The trace of an accepted message is stored with it as its header [`TRACEPARENT`]; each attempt is a
//! child of that, whenever and wherever it runs.

mod layer;
mod spans;
mod traceparent;

use opentelemetry_sdk::trace::SdkTracer;
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

pub use layer::TraceLayer;
pub use spans::{accept_span, attempt_span, ended};
pub use traceparent::{Correlation, TRACEPARENT, traceparent};

/// Marks the spans that are sent. They are not written to the log.
pub(super) const TARGET: &str = "bezoar_trace";

/// Sends our own spans and nothing else: what other crates put into spans and events is theirs, and
/// may be anything.
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
