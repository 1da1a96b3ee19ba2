//! Writes events as log lines.
//!
//! A decision is one readable line, with the same facts as fields for programs: `attempt 2 of 4
//! failed, retry 2 of 3 in 4 s`.

use std::time::Duration;

use bezoar_core::{
    CorrelationId, Decision, FailedTry, Message, QueueName, Reason, TransportError,
    UncountedFailure,
};

use crate::{Event, Observer};

/// Writes events to the log with ids and counts; never a body or a header value, and an error's text only if
/// [asked to](Self::show_error_texts_for_development).
#[derive(Debug, Clone, Copy, Default)]
pub struct Log {
    correlation_ids: CorrelationIds,
    error_texts: ErrorTexts,
}

/// Whether the log shows correlation ids. Exhaustive: there are no other choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CorrelationIds {
    /// Correlation ids are shown.
    #[default]
    Shown,
    /// Correlation ids are hidden.
    Hidden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ErrorTexts {
    #[default]
    Hidden,
    ShownForDevelopment,
}

impl Log {
    /// Shows or hides correlation ids.
    pub fn correlation_ids(mut self, correlation_ids: CorrelationIds) -> Self {
        self.correlation_ids = correlation_ids;
        self
    }

    /// Shows the text of each error in the field `error_text`.
    ///
    /// **For development only**: an error's text may quote whatever the handler worked on, such as a patient's name.
    pub fn show_error_texts_for_development(mut self) -> Self {
        self.error_texts = ErrorTexts::ShownForDevelopment;
        self
    }

    /// Logs a warning if error texts are shown.
    pub(crate) fn warn_of_error_texts(&self, queue: &QueueName) {
        if self.error_texts == ErrorTexts::ShownForDevelopment {
            tracing::warn!(
                %queue,
                "ERROR TEXTS ARE SHOWN IN THIS LOG and may contain personal data: for development only"
            );
        }
    }

    fn error_text<'a>(&self, failed: &'a FailedTry) -> Option<&'a str> {
        let shown = self.error_texts == ErrorTexts::ShownForDevelopment;
        shown.then(|| failed.detail.reveal().as_str())
    }
}

impl CorrelationIds {
    /// The message's correlation id, if the log shows it.
    pub(crate) fn of(self, message: &Message) -> Option<&str> {
        self.shown(message.correlation_id.as_ref())
    }

    /// The correlation id, if the log shows it.
    pub(crate) fn shown(self, id: Option<&CorrelationId>) -> Option<&str> {
        id.filter(|_| self == Self::Shown).map(CorrelationId::as_str)
    }
}

/// Logs one line about a message. Its ids and its retry count are in every line.
macro_rules! log {
    ($level:ident, $about:ident, $($fields_and_text:tt)*) => {
        tracing::$level!(
            queue = %$about.queue,
            message_id = %$about.message.id,
            correlation_id = $about.correlation_id,
            retry_count = $about.retry_count,
            $($fields_and_text)*
        )
    };
}

/// The facts that every line contains.
struct About<'a> {
    queue: &'a QueueName,
    message: &'a Message,
    correlation_id: Option<&'a str>,
    retry_count: u32,
}

impl Observer for Log {
    fn message(&self, queue: &QueueName, message: &Message, event: &Event<'_>) {
        let correlation_id = self.correlation_ids.of(message);
        let about = About { queue, message, correlation_id, retry_count: message.ledger.failed };
        match event {
            Event::Started => log!(trace, about, "started"),
            Event::TryFailed(failed) => try_failed(&about, failed, self.error_text(failed)),
            Event::Completed => log!(debug, about, "completed"),
            Event::Retried { after, last, decision } => retried(about, *after, *last, *decision),
            Event::DeadLettered { reason, last, decision } => {
                dead_lettered(about, reason, *last, *decision);
            }
            Event::NotCounted { failure, after } => not_counted(&about, failure, *after),
            Event::Released => log!(info, about, "released"),
            Event::LeaseLost => log!(warn, about, "lease lost"),
            Event::NotSettled(error) => {
                let source = std::error::Error::source(*error).map(ToString::to_string);
                log!(warn, about, error = %error, source, "outcome not stored");
            }
        }
    }

    fn paused(&self, queue: &QueueName, error: &TransportError, wait: Duration) {
        let source = std::error::Error::source(error).map(ToString::to_string);
        let wait_ms = wait.as_millis() as u64;
        tracing::error!(%queue, %error, source, wait_ms, "paused for {}", human(wait));
    }

    fn resumed(&self, queue: &QueueName) {
        tracing::info!(%queue, "resumed");
    }
}

fn try_failed(about: &About<'_>, failed: &FailedTry, error_text: Option<&str>) {
    let FailedTry { attempt, try_number, kind, code, .. } = failed;
    log!(
        warn, about, attempt, r#try = try_number, %kind, %code, error_text,
        "attempt {attempt} failed at try {try_number}"
    );
}

fn retried(
    mut about: About<'_>,
    after: Duration,
    last: Option<&FailedTry>,
    decision: Option<&Decision>,
) {
    let delay_ms = after.as_millis() as u64;
    let (kind, code) = kind_and_code(last);
    let Some(decision) = decision else {
        return log!(
            info,
            about,
            outcome = "retried",
            delay_ms,
            kind,
            code,
            "retry in {}",
            human(after)
        );
    };
    about.retry_count = decision.retry_count;
    log!(
        info,
        about,
        outcome = "retried",
        max_retries = decision.max_retries,
        delay_ms,
        kind,
        code,
        "{} failed, {} in {}",
        attempt_of(decision),
        decision.reason,
        human(after)
    );
}

fn dead_lettered(
    mut about: About<'_>,
    reason: &Reason,
    last: Option<&FailedTry>,
    decision: Option<&Decision>,
) {
    let (kind, code) = kind_and_code(last);
    let Some(decision) = decision else {
        return log!(error, about, outcome = "dead-lettered", %reason, kind, code, "dead-lettered: {reason}");
    };
    about.retry_count = decision.retry_count;
    log!(
        error, about, outcome = "dead-lettered", max_retries = decision.max_retries, %reason, kind, code,
        "{} failed, dead-lettered: {reason}", attempt_of(decision)
    );
}

fn not_counted(about: &About<'_>, failure: &UncountedFailure, after: Duration) {
    let UncountedFailure { code, suspected, .. } = failure;
    let delay_ms = after.as_millis() as u64;
    log!(
        info, about, outcome = "not counted", %code, suspected, delay_ms,
        "failed without using up a retry, next attempt in {}", human(after)
    );
}

fn kind_and_code(failed: Option<&FailedTry>) -> (Option<&str>, Option<&str>) {
    failed.map(|failed| (failed.kind.as_str(), failed.code.as_str())).unzip()
}

/// `attempt 2 of 4`. Leaves out a maximum that was lowered below the current attempt.
fn attempt_of(decision: &Decision) -> String {
    let attempt = decision.attempt();
    match decision.max_retries.map(|retries| retries.saturating_add(1)) {
        Some(most) if attempt <= most => format!("attempt {attempt} of {most}"),
        _ => format!("attempt {attempt}"),
    }
}

/// A duration as people write it: `250 ms`, `4 s`, `4.1 s`, `8 m 12 s`, `2 h 56 m`, `3 d 4 h`.
pub(crate) fn human(duration: Duration) -> String {
    let tenths = (duration.as_millis() + 50) / 100;
    match duration.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        _ if tenths < 100 && !tenths.is_multiple_of(10) => {
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        millis => units((millis + 500) / 1_000),
    }
}

/// The two largest units of a number of seconds.
fn units(seconds: u128) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |(large, unit), (small, smaller)| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => two((minutes, "m"), (seconds % 60, "s")),
        (0, ..) => two((hours, "h"), (minutes % 60, "m")),
        _ => two((days, "d"), (hours % 24, "h")),
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::{MessageId, MessageType};

    use super::*;

    #[test]
    fn correlation_ids_are_shown_unless_they_are_to_be_hidden() {
        let id = MessageId::new("m-1").unwrap();
        let message_type = MessageType::new("lab.result").unwrap();
        let message = Message::new(id, message_type, bezoar_core::millis(0), "")
            .with_correlation_id(CorrelationId::new("c-7").unwrap());
        assert_eq!(CorrelationIds::default().of(&message), Some("c-7"));
        assert_eq!(CorrelationIds::Hidden.of(&message), None);
    }

    #[test]
    fn durations_are_written_as_people_write_them() {
        for (millis, expected) in [
            (0, "0 ms"),
            (250, "250 ms"),
            (1_000, "1 s"),
            (4_000, "4 s"),
            (4_120, "4.1 s"),
            (9_940, "9.9 s"),
            (9_960, "10 s"),
            (33_400, "33 s"),
            (59_600, "1 m"),
            (240_000, "4 m"),
            (492_000, "8 m 12 s"),
            (10_560_000, "2 h 56 m"),
            (36_000_000, "10 h"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), expected);
        }
    }
}
