//! The record of a message that is set aside, as JSON that other tools can read.
//!
//! `{"OriginalMessageId":…,"OriginalText":…,"DequeueCount":…,"Time":…,"ErrorType":…,"ErrorText":…,"Bezoar":{…}}`
//!
//! If a message is too large to be quoted, the record is left out: an envelope of ours gets a member `dead` instead, and
//! the text of another program is set aside as it is, as Azure Functions do.

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::{
    Code, CorrelationId, DeadLetter, DeadLetterId, Detail, FailedTry, FailureKind, Invalid, Ledger,
    Message, MessageId, QueueName, Reason, Recognition, millis,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, Value};
use sha2::{Digest, Sha256};

use super::{LIMIT_BYTES, json, ledger, stored_text, stored_text::Content, with_member};
use crate::{ErrorTexts, ForeignText, connection::queue_client::Fetched};

/// Marks a letter that is sent back as it came: one that another program set aside, or an envelope that this program
/// cannot read. Its value says how the body was written in the text, so that the consumer gets what it expects.
const TEXT_HEADER: &str = "bezoar-azure-text";
/// The value of [`TEXT_HEADER`] for an envelope that this program cannot read. The body is its whole text.
const UNREADABLE: &str = "envelope";
/// Marks a letter whose body in Blob Storage is gone. Its value is the code of the reason.
const BODY_HEADER: &str = "bezoar-azure-body";
/// A reason's text is cut to this length where room is scarce.
const SHORT_REASON_BYTES: usize = 200;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    #[serde(alias = "originalMessageId")]
    original_message_id: String,
    #[serde(alias = "originalText")]
    original_text: String,
    #[serde(default, alias = "dequeueCount")]
    dequeue_count: u32,
    #[serde(default, alias = "time")]
    time: Option<String>,
    #[serde(default, alias = "errorType", skip_serializing_if = "Option::is_none")]
    error_type: Option<String>,
    #[serde(default, alias = "errorText", skip_serializing_if = "Option::is_none")]
    error_text: Option<String>,
    /// Only records of the poison-queue retry processor have these two. Others may have members of the same names with
    /// anything in them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    correlation_id: Value,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    retry_count: Option<u32>,
}

/// What only this program writes and reads.
#[derive(Serialize, Deserialize)]
struct Ours {
    /// The number of the dead letter.
    letter: i64,
    code: String,
    reason: String,
    /// Milliseconds since 1970.
    at: i64,
}

/// A message that is to be set aside.
pub(crate) struct Poisoned<'a> {
    pub(crate) fetched: &'a Fetched,
    /// The queue in which it died, and the id that it had there: the same message is always the same letter.
    pub(crate) died_in: (&'a QueueName, &'a str),
    /// What is kept of it: its text as it was sent.
    pub(crate) original_text: String,
    /// The correlation id and the retry count, if the poison-queue retry processor gave it up.
    pub(crate) retried: Option<(Option<CorrelationId>, u32)>,
    /// With the last attempt.
    pub(crate) ledger: Ledger,
    pub(crate) reason: &'a Reason,
    pub(crate) at: Timestamp,
}

impl Poisoned<'_> {
    /// The text for the poison queue. It always fits.
    pub(crate) fn write(&self, error_texts: ErrorTexts) -> String {
        let ledger = match error_texts {
            ErrorTexts::Keep => self.ledger.clone(),
            _ => without_details(&self.ledger),
        };
        self.record(&ledger, error_texts)
            .or_else(|| self.marked(&ledger))
            .unwrap_or_else(|| self.original_text.clone())
    }

    fn record(&self, ledger: &Ledger, error_texts: ErrorTexts) -> Option<String> {
        let last = self.ledger.last();
        let error_text = match error_texts {
            ErrorTexts::Keep => last.map(|it| it.detail.reveal().clone()),
            ErrorTexts::Redact | ErrorTexts::Omit => None,
        };
        let reason = || (error_texts != ErrorTexts::Omit).then(|| self.reason.to_string());
        let mut record = Record {
            original_message_id: self.fetched.id.clone(),
            original_text: self.original_text.clone(),
            dequeue_count: self.fetched.dequeue_count,
            time: Some(self.at.to_string()),
            error_type: Some(last.map_or(self.reason.code(), |it| &it.code).to_string()),
            error_text: error_text.or_else(reason),
            correlation_id: self.correlation_id().map_or(Value::Null, |it| it.as_str().into()),
            retry_count: self.retried.as_ref().map(|(_, count)| *count),
        };
        let plain = json(&record);
        let text = fitted(&plain, "Bezoar", ledger, |it| self.ours(it, usize::MAX));
        text.or_else(|| {
            record.error_text = None;
            fitted(&json(&record), "Bezoar", ledger, |it| self.ours(it, SHORT_REASON_BYTES))
        })
    }

    fn correlation_id(&self) -> Option<&CorrelationId> {
        self.retried.as_ref().and_then(|(id, _)| id.as_ref())
    }

    /// An envelope of ours with the reason, for a message that leaves no room for a record.
    fn marked(&self, ledger: &Ledger) -> Option<String> {
        let plain = &self.original_text;
        let is_ours =
            matches!(stored_text::read(self.fetched, ForeignText::Plain), Content::Message(_))
                && plain.starts_with('{')
                && stored_text::is_envelope(plain);
        if !is_ours {
            return None;
        }
        fitted(plain, "dead", ledger, |it| self.ours(it, SHORT_REASON_BYTES))
    }

    fn ours(&self, ledger: &Ledger, reason_bytes: usize) -> String {
        let mut reason = self.reason.to_string();
        reason.truncate(reason.floor_char_boundary(reason_bytes));
        let ours = Ours {
            letter: letter_id(self.died_in.0, self.died_in.1).number(),
            code: self.reason.code().to_string(),
            reason,
            at: self.at.as_millisecond(),
        };
        with_member(&json(&ours), "ledger", &ledger::write(ledger))
    }
}

/// The object with a member that holds the ledger, shortened until it fits.
fn fitted(
    object: &str,
    member: &str,
    ledger: &Ledger,
    value: impl Fn(&Ledger) -> String,
) -> Option<String> {
    let mut ledger = ledger.clone();
    let with = |it: &Ledger| with_member(object, member, &value(it));
    ledger.fit(|it| with(it).len() <= LIMIT_BYTES).then(|| with(&ledger))
}

fn without_details(ledger: &Ledger) -> Ledger {
    let tries = ledger.history().iter().cloned();
    let history = tries.map(|it| FailedTry { detail: Detail::default(), ..it }).collect();
    let (acquired, failed) = (ledger.acquired, ledger.failed);
    let mut without = Ledger::restored(acquired, failed, ledger.released, ledger.replayed, history);
    (without.replay, without.uncounted) = (ledger.replay, ledger.uncounted.clone());
    without
}

/// The id of a letter, from Azure's id of the message that became it: a message that is set aside twice, because the
/// first time it could not be deleted afterwards, is one letter.
fn letter_id(queue: &QueueName, azure_id: &str) -> DeadLetterId {
    let digest =
        Sha256::new().chain_update(queue.as_str()).chain_update([0]).chain_update(azure_id);
    let digest = digest.finalize();
    let number = i64::from_be_bytes(std::array::from_fn(|place| digest[place]));
    DeadLetterId::from_number(number & i64::MAX)
}

#[derive(Deserialize)]
struct Extra<'a> {
    #[serde(borrow, alias = "Bezoar")]
    dead: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Ledgered<'a> {
    #[serde(borrow)]
    ledger: Option<&'a RawValue>,
}

/// The dead letter in a text of the poison queue of `queue`, whoever set it aside.
pub(crate) fn read(queue: &QueueName, fetched: &Fetched, foreign: ForeignText) -> DeadLetter {
    let extra: Option<&RawValue> =
        serde_json::from_str::<Extra<'_>>(&fetched.text).ok().and_then(|it| it.dead);
    let ours = extra.and_then(|it| Some((serde_json::from_str::<Ours>(it.get()).ok()?, it)));
    let record: Option<Record> = serde_json::from_str(&fetched.text).ok();
    let mut letter = match record {
        Some(record) => of_record(queue, fetched, record, foreign),
        None => found(queue, fetched, &fetched.text, fetched.id.clone(), foreign),
    };
    if let Some((ours, raw)) = ours {
        letter.id = DeadLetterId::from_number(ours.letter);
        letter.at = millis(ours.at);
        letter.reason = Reason::new(Code::new(ours.code).unwrap_or(Code::UNKNOWN), ours.reason);
        let ledger = serde_json::from_str::<Ledgered<'_>>(raw.get()).ok().and_then(|it| it.ledger);
        letter.message.ledger = ledger.map(|it| ledger::read(it.get())).unwrap_or_default();
        if !is_unreadable(&letter.message) {
            letter.message.headers.remove(TEXT_HEADER);
        }
    }
    letter
}

/// A record without its message.
pub(crate) struct Unwrapped {
    pub(crate) message_id: String,
    pub(crate) text: String,
    /// The ledger of the message, if the record is ours.
    pub(crate) ledger: Option<Ledger>,
}

/// The message in a record, whoever set it aside; `None` if the text is no record.
pub(super) fn unwrap(text: &str) -> Option<Unwrapped> {
    let record: Record = serde_json::from_str(text).ok()?;
    let ours = serde_json::from_str::<Extra<'_>>(text).ok().and_then(|it| it.dead);
    let ledger = ours.and_then(|it| serde_json::from_str::<Ledgered<'_>>(it.get()).ok());
    Some(Unwrapped {
        message_id: record.original_message_id,
        text: record.original_text,
        ledger: ledger.and_then(|it| it.ledger).map(|it| ledger::read(it.get())),
    })
}

/// A letter of which only a record without our part is known.
fn of_record(
    queue: &QueueName,
    fetched: &Fetched,
    record: Record,
    foreign: ForeignText,
) -> DeadLetter {
    let id = record.original_message_id;
    let mut letter = found(queue, fetched, &record.original_text, id, foreign);
    if let (None, Some(id)) = (&letter.message.correlation_id, record.correlation_id.as_str()) {
        letter.message.correlation_id = CorrelationId::new(id).ok();
    }
    letter.at = record.time.and_then(|it| it.parse().ok()).unwrap_or(letter.at);
    let deliveries = record.dequeue_count;
    letter.reason = Reason::new(
        Reason::REJECTED,
        format!("set aside by another program after {deliveries} deliveries"),
    );
    if record.error_type.is_some() || record.error_text.is_some() {
        let failed = FailedTry {
            generation: 0,
            attempt: deliveries,
            try_number: 1,
            started_at: letter.at,
            duration: std::time::Duration::ZERO,
            kind: FailureKind::Unknown,
            code: record.error_type.and_then(|it| Code::new(it).ok()).unwrap_or(Code::UNKNOWN),
            detail: Detail::truncated(record.error_text.unwrap_or_default()),
        };
        letter.message.ledger = Ledger::restored(deliveries, deliveries, 0, 0, vec![failed]);
    }
    letter
}

/// A letter of which only the text is known.
fn found(
    queue: &QueueName,
    fetched: &Fetched,
    text: &str,
    id: String,
    foreign: ForeignText,
) -> DeadLetter {
    let id = if MessageId::new(&id).is_ok() { id } else { fetched.id.clone() };
    let original = Fetched { text: text.to_owned(), id, dequeue_count: 1, ..fetched.clone() };
    let message = match stored_text::read(&original, foreign) {
        Content::Message(message) if stored_text::is_envelope(text) => *message,
        Content::Message(message) => as_written(*message, text),
        Content::Damaged | Content::Newer(_) => {
            stored_text::as_plain(&original).with_header(TEXT_HEADER, UNREADABLE)
        }
    };
    DeadLetter {
        id: letter_id(queue, &fetched.id),
        queue: queue.clone(),
        message,
        reason: Reason::new(Reason::REJECTED, "set aside by another program"),
        at: fetched.inserted_at,
        recognition: Recognition::Id,
    }
}

fn as_written(message: Message, text: &str) -> Message {
    let plain = message.body.reveal().as_ref() == text.as_bytes();
    message.with_header(TEXT_HEADER, if plain { "plain" } else { "base64" })
}

fn is_unreadable(message: &Message) -> bool {
    message.headers.get(TEXT_HEADER).is_some_and(|it| it.reveal() == UNREADABLE)
}

/// The message of a letter whose body is gone, for this reason.
pub(crate) fn without_body(message: Message, reason: &Reason) -> Message {
    message.with_header(BODY_HEADER, reason.code().as_str())
}

/// The message of a letter as it is replayed. It must have a body, from Blob Storage or from an edit.
pub(crate) fn with_body(message: &Message) -> Result<Message, Invalid> {
    let mut message = message.clone();
    match message.headers.remove(BODY_HEADER) {
        Some(_) if message.body.is_empty() => {
            let problem =
                "is missing in Blob Storage; edit the letter to give it a body, then replay it";
            Err(Invalid::new("body", problem))
        }
        _ => Ok(message),
    }
}

/// The text with which a letter that goes back as it came is sent; `None` for all others.
pub(crate) fn as_it_came(message: &Message) -> Option<String> {
    let written = message.headers.get(TEXT_HEADER)?;
    let base64 = written.reveal().as_str() == "base64";
    Some(if base64 { BASE64_STANDARD.encode(message.body.reveal()) } else { as_text(message) })
}

/// The body as the text of a message: as it is, or in base64 if XML cannot express it.
pub(crate) fn as_text(message: &Message) -> String {
    let body = message.body.reveal();
    let allowed =
        |it: char| (it >= ' ' || "\t\n\r".contains(it)) && !"\u{fffe}\u{ffff}".contains(it);
    match std::str::from_utf8(body) {
        Ok(text) if text.chars().all(allowed) => text.to_owned(),
        _ => BASE64_STANDARD.encode(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{connection::queue_client::PopReceipt, wire::envelope};
    use bezoar_core::{Failure, MessageType};

    fn queue() -> QueueName {
        QueueName::new("results").unwrap()
    }

    fn fetched(text: String) -> Fetched {
        let (id, pop_receipt) = ("8f2c".to_owned(), PopReceipt::default());
        Fetched { id, pop_receipt, text, dequeue_count: 3, inserted_at: millis(5_000) }
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::restored(3, 2, 0, 0, vec![]);
        let failure = Failure::permanent("CANARY").with_code(Code::from_static("http.400"));
        ledger.fail(vec![FailedTry::new(millis(0), std::time::Duration::ZERO, &failure)]);
        ledger
    }

    fn write(text: &str, error_texts: ErrorTexts) -> String {
        let reason = Reason::new(Reason::EXHAUSTED, "max retries (3) exhausted");
        let (fetched, queue) = (fetched(text.to_owned()), queue());
        let (ledger, at) = (ledger(), millis(1_700_000_000_123));
        let (died_in, original_text) = ((&queue, "8f2c"), stored_text::original(text));
        let (fetched, reason, retried) = (&fetched, &reason, None);
        Poisoned { fetched, died_in, original_text, retried, ledger, reason, at }.write(error_texts)
    }

    fn read_back(text: String) -> DeadLetter {
        let mut poison = fetched(text);
        poison.id = "another".to_owned();
        read(&queue(), &poison, ForeignText::Detect)
    }

    #[test]
    fn a_record_has_the_documented_members() {
        let text = write("hello", ErrorTexts::Keep);
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["OriginalMessageId"], "8f2c");
        assert_eq!(record["OriginalText"], "hello");
        assert_eq!(record["DequeueCount"], 3);
        assert_eq!(record["Time"], "2023-11-14T22:13:20.123Z");
        assert_eq!(record["ErrorType"], "http.400");
        assert_eq!(record["ErrorText"], "CANARY");
    }

    #[test]
    fn error_texts_can_be_redacted_or_left_out() {
        let redacted = write("hello", ErrorTexts::Redact);
        assert!(!redacted.contains("CANARY"), "{redacted}");
        assert!(redacted.contains(r#""ErrorText":"max retries (3) exhausted""#), "{redacted}");
        let omitted = write("hello", ErrorTexts::Omit);
        assert!(!omitted.contains("CANARY") && !omitted.contains("ErrorText"), "{omitted}");
    }

    #[test]
    fn a_letter_of_ours_comes_back_whole() {
        let (id, kind) = (MessageId::new("m-1").unwrap(), MessageType::new("lab").unwrap());
        for size in [10, envelope::LARGEST_BODY_BYTES] {
            let sent = Message::new(id.clone(), kind.clone(), millis(7), vec![b'"'; size]);
            let letter = read_back(write(&envelope::write(&sent).unwrap(), ErrorTexts::Keep));
            assert_eq!(letter.reason.to_string(), "max retries (3) exhausted");
            assert_eq!(letter.reason.code(), &Reason::EXHAUSTED);
            assert_eq!(letter.at, millis(1_700_000_000_123));
            assert_eq!(letter.message.ledger, ledger());
            assert_eq!(letter.message, sent.with_ledger(ledger()));
            assert_eq!(letter.id, letter_id(&queue(), "8f2c"), "a second copy is the same letter");
        }
    }

    #[test]
    fn a_foreign_text_of_any_size_is_set_aside() {
        for size in [10, 60_000, super::LIMIT_BYTES] {
            let text = "\"".repeat(size);
            let poison = write(&text, ErrorTexts::Keep);
            assert!(poison.len() <= LIMIT_BYTES);
            assert_eq!(read_back(poison).message.body, text.into());
        }
    }

    #[test]
    fn letters_of_other_programs_are_taken_as_they_are() {
        let letter = read_back("aGVsbG8=".to_owned());
        assert_eq!(letter.message.body, "hello".into());
        assert_eq!((letter.message.id.as_str(), letter.at), ("another", millis(5_000)));
        assert_eq!(as_it_came(&letter.message).unwrap(), "aGVsbG8=");
        let record = r#"{"originalMessageId":"o-1","originalText":"hi there","dequeueCount":6,
            "time":"2026-01-02T03:04:05Z","errorType":"System.TimeoutException","errorText":"CANARY"}"#;
        let letter = read_back(record.to_owned());
        assert_eq!((letter.message.id.as_str(), &letter.message.body), ("o-1", &"hi there".into()));
        assert_eq!(letter.at.to_string(), "2026-01-02T03:04:05Z");
        let last = letter.message.ledger.last().unwrap();
        assert_eq!(
            (last.code.as_str(), last.detail.reveal().as_str()),
            ("System.TimeoutException", "CANARY")
        );
        assert!(!letter.reason.to_string().contains("CANARY"));
        assert_eq!(as_it_came(&letter.message).unwrap(), "hi there");
        let edited = letter.message.with_body("a\0b");
        assert_eq!(as_it_came(&edited).unwrap(), "YQBi", "XML has no such character");
    }
}
