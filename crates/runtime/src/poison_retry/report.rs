//! Spans and log lines of a run and of each message. Neither contains a payload or the text of an error.

use std::{error::Error as _, time::Duration};

use bezoar_core::{
    CorrelationId, FailedTry, Failure, MessageId, QueueName, Reason, TransportError,
    poison_retry::PoisonMessage,
};
use tracing::{Span, field::Empty, info_span};

use super::{
    PoisonRetry,
    summary::{Fate, PoisonRun, PoisonRunError},
};
use crate::{CorrelationIds, log::human};

/// Marks spans that a gateway exports. They are not logged.
const TARGET: &str = "bezoar_trace";

pub(super) fn run_span(queue: &QueueName) -> Span {
    info_span!(
        target: TARGET,
        "poison_retry.run",
        "otel.name" = %format_args!("poison_retry {queue}"),
        "otel.kind" = "consumer",
        "otel.status_code" = Empty,
        "error.type" = Empty,
        "messaging.system" = "bezoar",
        "messaging.operation.name" = "poison_retry",
        "messaging.operation.type" = "receive",
        "messaging.destination.name" = queue.as_str(),
        "messaging.batch.message_count" = Empty,
        "message.count" = Empty,
    )
}

/// Records and logs how a run ended. One that could not proceed is an error.
pub(super) fn run_ended(span: &Span, queue: &QueueName, run: &Result<PoisonRun, PoisonRunError>) {
    let _entered = span.enter();
    let counts = run.as_ref().unwrap_or_else(|failed| &failed.so_far);
    let PoisonRun { taken: message_count, delivered, retried, dead_lettered, left } = *counts;
    span.record("messaging.batch.message_count", message_count)
        .record("message.count", message_count);
    match run {
        Err(failed) => {
            let source = failed.source.source().map(ToString::to_string);
            end(span, Err(kind(&failed.source)));
            tracing::error!(%queue, message_count, error = %failed.source, source, "poison retry cannot proceed");
        }
        Ok(_) if message_count == 0 => {
            end(span, Ok(()));
            tracing::info!(%queue, message_count, "poison queue is empty");
        }
        Ok(_) => {
            end(span, Ok(()));
            tracing::info!(
                %queue, message_count, delivered, retried, dead_lettered, left,
                "poison retry processed {message_count} messages"
            );
        }
    }
}

/// What is said about one message.
pub(super) struct Report {
    queue: QueueName,
    id: MessageId,
    correlation_id: Option<CorrelationId>,
    retry_count: u32,
    max_attempts: u32,
    span: Span,
}

/// Logs one line about a message, with its ids and its retry count.
macro_rules! log {
    ($level:ident, $about:ident, $($fields_and_text:tt)*) => {
        tracing::$level!(
            queue = %$about.queue,
            message_id = %$about.id,
            correlation_id = $about.correlation_id.as_ref().map(CorrelationId::as_str),
            $($fields_and_text)*
        )
    };
}

impl Report {
    pub(super) fn new(processor: &PoisonRetry, message: &dyn PoisonMessage) -> Self {
        let shown = processor.correlation == CorrelationIds::Shown;
        let (queue, id) = (processor.name.clone(), message.id().clone());
        let correlation_id = message.correlation_id().filter(|_| shown).cloned();
        let (retry_count, max_attempts) = (message.retry_count(), processor.options.max_attempts);
        let span = message_span(&queue, &id, correlation_id.as_ref(), retry_count);
        Self { queue, id, correlation_id, retry_count, max_attempts, span }
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(super) fn delivered(&self) -> Fate {
        log!(info, self, retry_count = self.retry_count, outcome = "delivered", "delivered");
        self.ended(Fate::Delivered, Ok(()))
    }

    pub(super) fn retried(&self, retry_count: u32, after: Duration, failure: &Failure) -> Fate {
        let (delay_ms, max_attempts) = (after.as_millis() as u64, self.max_attempts);
        let Failure { kind, code, .. } = failure;
        log!(
            warn, self, retry_count, outcome = "retried", delay_ms, max_attempts, %kind, %code,
            "delivery failed, retry {retry_count} of {max_attempts} in {}", human(after)
        );
        self.ended(Fate::Retried, Err(code.as_str()))
    }

    pub(super) fn dead_lettered(&self, reason: &Reason, failed: Option<&FailedTry>) -> Fate {
        let (kind, code) = failed.map(|it| (it.kind.as_str(), it.code.as_str())).unzip();
        let (retry_count, max_attempts) = (self.retry_count, self.max_attempts);
        log!(
            error, self, retry_count, outcome = "dead-lettered", max_attempts, %reason, kind, code,
            "dead-lettered: {reason}"
        );
        self.ended(Fate::DeadLettered, Err(reason.code().as_str()))
    }

    pub(super) fn panicked(&self) -> Fate {
        log!(
            error,
            self,
            retry_count = self.retry_count,
            outcome = "left",
            "the access to the queue panicked"
        );
        self.ended(Fate::Left, Err("panic"))
    }

    /// The message could not be read, or its outcome not stored. It becomes visible again by itself.
    pub(super) fn left(&self, what: &'static str, error: &TransportError) -> Fate {
        let source = error.source().map(ToString::to_string);
        log!(
            warn, self, retry_count = self.retry_count, outcome = "left", %error, source,
            "{what}; it is taken again later"
        );
        self.ended(Fate::Left, Err(kind(error)))
    }

    fn ended(&self, fate: Fate, outcome: Result<(), &str>) -> Fate {
        end(&self.span, outcome);
        fate
    }
}

fn message_span(
    queue: &QueueName,
    id: &MessageId,
    correlation_id: Option<&CorrelationId>,
    retry_count: u32,
) -> Span {
    let correlation_id = correlation_id.map(CorrelationId::as_str);
    info_span!(
        target: TARGET,
        "poison_retry.message",
        "otel.name" = %format_args!("deliver {queue}"),
        "otel.kind" = "consumer",
        "otel.status_code" = Empty,
        "error.type" = Empty,
        "messaging.system" = "bezoar",
        "messaging.operation.name" = "poison_retry",
        "messaging.operation.type" = "process",
        "messaging.destination.name" = queue.as_str(),
        "messaging.message.id" = id.as_str(),
        "messaging.message.conversation_id" = correlation_id,
        "message.id" = id.as_str(),
        "correlation.id" = correlation_id,
        "retry.count" = retry_count,
    )
}

/// Records how a span ended, with a word that is safe to show.
fn end(span: &Span, outcome: Result<(), &str>) {
    match outcome {
        Ok(()) => span.record("otel.status_code", "OK"),
        Err(word) => span.record("otel.status_code", "ERROR").record("error.type", word),
    };
}

/// A word for the kind of an error.
fn kind(error: &TransportError) -> &'static str {
    use bezoar_core::ErrorKind;
    match error.kind {
        ErrorKind::LeaseLost => "lease_lost",
        ErrorKind::OutcomeUnknown => "outcome_unknown",
        ErrorKind::Throttled { .. } => "throttled",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::NotAuthorized => "not_authorized",
        ErrorKind::QueueNotFound(_) => "queue_not_found",
        _ => "transport",
    }
}
