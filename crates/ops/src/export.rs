//! Dead letters as JSON lines, and back. A line contains everything, including sensitive content: the caller must be
//! authorized and must have recorded the export in the audit log.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bezoar_core::{
    Code, ContentType, CorrelationId, DeadLetterId, Detail, FailedTry, FailureKind, Invalid,
    Ledger, Message, MessageId, MessageType, QueueName, Reason, UncountedSummary,
    catalogue::{CauseId, DeadLetterRecord, DeadLetterState, DeadLetterSummary},
    millis,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The format identifier of a line.
const FORM: &str = "bezoar-dead-letter/1";

/// A dead letter could not be written as a line.
#[derive(Debug, thiserror::Error)]
#[error("a dead letter cannot be written as JSON")]
pub struct ExportError(#[source] serde_json::Error);

/// A line is not a valid dead letter. The error text is safe to show.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is not JSON in this format.
    #[error("not a dead letter written by `bezoar dead export` (column {0})")]
    Form(usize),
    /// The line has another format version.
    #[error("not an export line of this version: \"form\" is not {FORM:?}")]
    Version,
    /// The body is not valid base64.
    #[error("the body is not valid base64")]
    Body,
    /// A name or an id is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Of whoever exported it, who alone can check it.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "accepted and ignored")]
    signature: Option<String>,
    form: String,
    /// The store and the id there. Together they prevent a second import.
    stamp: String,
    queue: String,
    /// `edited` and `unapproved` dead letters cannot be replayed elsewhere either.
    state: String,
    at: Timestamp,
    reason: Why,
    message: Envelope,
    ledger: Counts,
    /// Failures that did not use up a retry; missing in lines of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncounted: Option<Uncounted>,
    history: Vec<Try>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Uncounted {
    count: u32,
    suspected: u32,
    first: Timestamp,
    last: Timestamp,
    waited_ms: u64,
    code: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    code: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    id: String,
    #[serde(rename = "type")]
    message_type: String,
    time: Timestamp,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    content_type: Option<String>,
    headers: std::collections::BTreeMap<String, String>,
    body_base64: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    acquired: u32,
    failed: u32,
    released: u32,
    replayed: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Try {
    generation: u32,
    attempt: u32,
    r#try: u32,
    started_at: Timestamp,
    duration_ms: u64,
    kind: String,
    code: String,
    detail: String,
}

/// Writes a dead letter as a line, without the line terminator. `origin` identifies its store.
///
/// # Errors
///
/// [`ExportError`], which never happens for dead letters from a catalogue.
pub fn write_line(origin: &str, record: &DeadLetterRecord) -> Result<String, ExportError> {
    let DeadLetterRecord { entry, message, reason, .. } = record;
    let line = Line {
        signature: None,
        form: FORM.to_owned(),
        stamp: format!("{origin}/{}", entry.id),
        queue: entry.queue.to_string(),
        state: entry.state.as_str().to_owned(),
        at: entry.died_at,
        reason: Why { code: reason.code().to_string(), text: reason.to_string() },
        message: envelope(message),
        ledger: Counts {
            acquired: message.ledger.acquired,
            failed: message.ledger.failed,
            released: message.ledger.released,
            replayed: message.ledger.replayed,
        },
        uncounted: message.ledger.uncounted.as_ref().map(written_uncounted),
        history: message.ledger.history().iter().map(written).collect(),
    };
    serde_json::to_string(&line).map_err(ExportError)
}

fn envelope(message: &Message) -> Envelope {
    let header = |(name, value): (&String, &bezoar_core::HeaderValue)| {
        (name.clone(), value.reveal().clone())
    };
    Envelope {
        id: message.id.to_string(),
        message_type: message.message_type.to_string(),
        time: message.time,
        correlation_id: message.correlation_id.as_ref().map(ToString::to_string),
        causation_id: message.causation_id.as_ref().map(ToString::to_string),
        content_type: message.content_type.as_ref().map(ToString::to_string),
        headers: message.headers.iter().map(header).collect(),
        body_base64: STANDARD.encode(message.body.reveal()),
    }
}

fn written_uncounted(summary: &UncountedSummary) -> Uncounted {
    Uncounted {
        count: summary.count,
        suspected: summary.suspected,
        first: summary.first,
        last: summary.last,
        waited_ms: summary.waited.as_millis() as u64,
        code: summary.code.to_string(),
    }
}

fn read_uncounted(line: Uncounted) -> Result<UncountedSummary, Invalid> {
    Ok(UncountedSummary {
        count: line.count,
        suspected: line.suspected,
        first: line.first,
        last: line.last,
        waited: Duration::from_millis(line.waited_ms),
        code: Code::new(line.code)?,
    })
}

fn written(failed: &FailedTry) -> Try {
    Try {
        generation: failed.generation,
        attempt: failed.attempt,
        r#try: failed.try_number,
        started_at: failed.started_at,
        duration_ms: failed.duration.as_millis() as u64,
        kind: failed.kind.to_string(),
        code: failed.code.to_string(),
        detail: failed.detail.reveal().clone(),
    }
}

/// Reads the stamp and the dead letter of a line. The import assigns its id.
///
/// # Errors
///
/// [`ImportError`], which contains nothing of the line.
pub fn read_line(line: &str) -> Result<(String, DeadLetterRecord), ImportError> {
    let line: Line =
        serde_json::from_str(line).map_err(|error| ImportError::Form(error.column()))?;
    if line.form != FORM {
        return Err(ImportError::Version);
    }
    let reason = Reason::new(Code::new(line.reason.code)?, words(line.reason.text)?);
    let history = line.history.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let Counts { acquired, failed, released, replayed } = line.ledger;
    let mut message = message(line.message)?;
    message.ledger = Ledger::restored(acquired, failed, released, replayed, history);
    message.ledger.uncounted = line.uncounted.map(read_uncounted).transpose()?;
    let mut entry = entry(&message, QueueName::new(&line.queue)?, &reason, line.at)?;
    entry.state = match line.state.as_str() {
        "edited" => DeadLetterState::Edited,
        "unapproved" => DeadLetterState::Unapproved,
        _ => DeadLetterState::Open,
    };
    let record = DeadLetterRecord {
        entry,
        message,
        reason,
        versions: Vec::new(),
        earlier: Vec::new(),
        operations: Vec::new(),
    };
    Ok((line.stamp, record))
}

/// Validates a reason, which is shown in lists.
fn words(text: String) -> Result<String, Invalid> {
    const LIMIT_CHARS: usize = 200;
    if text.chars().count() > LIMIT_CHARS || text.contains(char::is_control) {
        return Err(Invalid::new("reason", "is not a line of at most 200 characters"));
    }
    Ok(text)
}

fn message(envelope: Envelope) -> Result<Message, ImportError> {
    let body = STANDARD.decode(envelope.body_base64).map_err(|_| ImportError::Body)?;
    let (id, message_type) =
        (MessageId::new(envelope.id)?, MessageType::new(envelope.message_type)?);
    let mut message = Message::new(id, message_type, envelope.time, body);
    message.correlation_id = envelope.correlation_id.map(CorrelationId::new).transpose()?;
    message.causation_id = envelope.causation_id.map(MessageId::new).transpose()?;
    message.content_type = envelope.content_type.map(ContentType::new).transpose()?;
    message.headers =
        envelope.headers.into_iter().map(|(name, value)| (name, value.into())).collect();
    message.check_headers()?;
    Ok(message)
}

fn read(line: Try) -> Result<FailedTry, ImportError> {
    Ok(FailedTry {
        generation: line.generation,
        attempt: line.attempt,
        try_number: line.r#try,
        started_at: millis(line.started_at.as_millisecond()),
        duration: Duration::from_millis(line.duration_ms),
        kind: line.kind.parse()?,
        code: Code::new(line.code)?,
        detail: Detail::truncated(line.detail),
    })
}

/// The list entry; the store assigns its id and its cause.
fn entry(
    message: &Message,
    queue: QueueName,
    reason: &Reason,
    at: Timestamp,
) -> Result<DeadLetterSummary, ImportError> {
    let last = message.ledger.last();
    Ok(DeadLetterSummary {
        id: DeadLetterId::from_number(0),
        queue,
        message_id: message.id.clone(),
        message_type: message.message_type.clone(),
        correlation_id: message.correlation_id.clone(),
        kind: last.map_or(FailureKind::Unknown, |last| last.kind),
        code: last.map_or(reason.code(), |last| &last.code).clone(),
        cause: CauseId::new("v0:0000000000000000")?,
        reason: reason.to_string(),
        time: message.time,
        died_at: at,
        arrived_at: at,
        attempts: message.ledger.failed,
        replayed: message.ledger.replayed,
        body_bytes: message.body.len() as u64,
        state: DeadLetterState::Open,
        edited_from: None,
        possible_copy_of: None,
    })
}

#[cfg(test)]
mod tests {
    use bezoar_core::{Failure, UncountedFailure};

    use super::*;

    fn record() -> DeadLetterRecord {
        let id = MessageId::new("m-1").unwrap();
        let mut message = Message::new(
            id,
            MessageType::new("lab.result").unwrap(),
            millis(1_500),
            vec![0_u8, 159, 146, 150],
        )
        .with_header("unit", "mg/l\n\u{1f600}")
        .with_correlation_id(CorrelationId::new("c-1").unwrap());
        message.ledger.acquire();
        let failure = Failure::permanent("no patient \"Doe\"");
        message.ledger.fail(vec![FailedTry::new(
            millis(2_000),
            Duration::from_millis(7),
            &failure,
        )]);
        let reason = Reason::new(Reason::EXHAUSTED, "max retries (3) exhausted");
        let queue = QueueName::new("lab").unwrap();
        let entry = entry(&message, queue, &reason, millis(3_000)).unwrap();
        DeadLetterRecord {
            entry,
            message,
            reason,
            versions: Vec::new(),
            earlier: Vec::new(),
            operations: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_back_byte_for_byte() {
        let line = write_line("store-1", &record()).unwrap();
        assert!(!line.contains('\n'));
        let (stamp, read) = read_line(&line).unwrap();
        assert_eq!((stamp.as_str(), read), ("store-1/dl_hwfwfpd9", record()));
    }

    #[test]
    fn uncounted_failures_are_kept_and_lines_without_them_are_read() {
        let mut record = record();
        assert!(!write_line("store-1", &record).unwrap().contains("uncounted"));
        record.message.ledger.fail_uncounted(&UncountedFailure {
            at: millis(2_500),
            code: Code::from_static("http.503"),
            suspected: true,
            waited: Duration::ZERO,
        });
        let line = write_line("store-1", &record).unwrap();
        assert_eq!(read_line(&line).unwrap().1.message.ledger, record.message.ledger);
    }

    #[test]
    fn a_line_that_is_none_is_refused_without_showing_it() {
        let line = write_line("store-1", &record()).unwrap();
        for (from, to) in [
            ("bezoar-dead-letter/1", "bezoar-dead-letter/9"),
            ("\"AJ+Slg==\"", "\"CANARY!\""),
            ("\"queue\":\"lab\"", "\"queue\":\"CANARY\\u0000\""),
            ("\"stamp\"", "\"CANARY\""),
            ("\"permanent\"", "\"CANARY\""),
            ("}", ""),
        ] {
            assert!(line.contains(from), "{from}");
            let error = read_line(&line.replacen(from, to, 1)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("CANARY"), "{error:?}");
        }
    }
}
