//! The two spans of a message, by OpenTelemetry's messaging conventions.

use bezoar::{Context, Message, Outgoing};
use opentelemetry::trace::TraceContextExt;
use tracing::{Span, field::Empty, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{
    TARGET,
    traceparent::{parse, stored},
};

/// The span of accepting messages, part of the caller's trace if there is one.
pub fn accept_span(queue: &str, batch: &[Outgoing], incoming: Option<&str>) -> Span {
    let single = match batch {
        [one] => Some(&one.message),
        _ => None,
    };
    let span = info_span!(
        target: TARGET,
        "accept",
        "otel.name" = %format_args!("accept {queue}"),
        "otel.kind" = "producer",
        "otel.status_code" = Empty,
        "error.type" = Empty,
        "messaging.system" = "bezoar",
        "messaging.operation.name" = "accept",
        "messaging.operation.type" = "send",
        "messaging.destination.name" = queue,
        "messaging.batch.message_count" = single.is_none().then_some(batch.len()),
        "messaging.message.id" = single.map(|message| message.id.as_str()),
        "messaging.message.conversation_id" = single.and_then(conversation),
        "messaging.message.body.size" = single.map(|message| message.body.len()),
    );
    continue_from(&span, incoming);
    span
}

/// The span of one try to deliver a message, part of the trace that was stored with it.
pub fn attempt_span(route: &str, context: &Context) -> Span {
    let (queue, message) = (context.queue.as_str(), &*context.message);
    let span = info_span!(
        target: TARGET,
        "deliver",
        "otel.name" = %format_args!("deliver {queue}"),
        "otel.kind" = "consumer",
        "otel.status_code" = Empty,
        "error.type" = Empty,
        "messaging.system" = "bezoar",
        "messaging.operation.name" = "deliver",
        "messaging.operation.type" = "process",
        "messaging.destination.name" = queue,
        "messaging.message.id" = message.id.as_str(),
        "messaging.message.conversation_id" = conversation(message),
        "messaging.message.body.size" = message.body.len(),
        "bezoar.route" = route,
        "bezoar.attempt" = context.attempt,
        "bezoar.replayed" = message.ledger.replayed,
        "bezoar.redelivered" = context.redelivered,
        "bezoar.postponed" = Empty,
    );
    continue_from(&span, stored(context));
    span
}

/// Records how a span ended: successfully, or with an error code that is safe to show.
pub fn ended(span: &Span, outcome: Result<(), &str>) {
    match outcome {
        Ok(()) => span.record("otel.status_code", "OK"),
        Err(word) => span.record("otel.status_code", "ERROR").record("error.type", word),
    };
}

fn conversation(message: &Message) -> Option<&str> {
    message.correlation_id.as_ref().map(|id| id.as_str())
}

fn continue_from(span: &Span, parent: Option<&str>) {
    if span.is_disabled() {
        return;
    }
    if let Some(parent) = parent.and_then(parse) {
        let parent = opentelemetry::Context::new().with_remote_span_context(parent);
        // Fails only if traces are off, and then there is nothing to continue.
        let _ = span.set_parent(parent);
    }
}
