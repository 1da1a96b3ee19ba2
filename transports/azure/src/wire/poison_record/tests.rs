//! Records are written and read back.

use bezoar_core::{
    Code, DeadLetter, FailedTry, Failure, Ledger, Message, MessageId, MessageType, QueueName,
    Reason, millis,
};

use super::*;
use crate::{
    ErrorTexts, ForeignText,
    connection::queue_client::{Fetched, PopReceipt},
    wire::{LIMIT_BYTES, envelope, stored_text},
};

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
    for size in [10, 60_000, LIMIT_BYTES] {
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
