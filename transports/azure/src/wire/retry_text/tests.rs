//! Texts of every kind, read and rewritten.

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::{FailedTry, Failure, millis};
use proptest::prelude::*;

use super::*;
use crate::connection::queue_client::PopReceipt;

fn fetched(text: &str) -> Fetched {
    let (id, pop_receipt) = ("8f2c".to_owned(), PopReceipt::default());
    Fetched { id, pop_receipt, text: text.to_owned(), dequeue_count: 1, inserted_at: millis(0) }
}

fn read(text: &str) -> RetryText {
    super::read(&fetched(text), ForeignText::Detect, &RetryFields::default())
}

fn raised(text: &str, retry_count: u32, ledger: Option<&Ledger>) -> Option<String> {
    rewritten(text, ForeignText::Detect, &RetryFields::default(), retry_count, ledger)
}

fn body(text: &RetryText) -> String {
    let message = text.message.as_ref().unwrap();
    String::from_utf8(message.body.reveal().to_vec()).unwrap()
}

fn failing() -> Ledger {
    let mut ledger = Ledger::default();
    let failure = Failure::transient("no room");
    ledger.fail(vec![FailedTry::new(millis(0), std::time::Duration::ZERO, &failure)]);
    ledger
}

const ENVELOPE: &str =
    r#"{"bezoar":1,"id":"m","type":"t","time":0,"correlation_id":"c-1","body":"aGk="}"#;

fn record(text: &str) -> String {
    serde_json::json!({ "OriginalMessageId": "o-1", "OriginalText": text, "DequeueCount": 5 })
        .to_string()
}

#[test]
fn count_and_correlation_id_are_read_from_every_kind_of_text() {
    let foreign = r#"{"CorrelationId":"c-7","RetryCount":2,"Patient":"x"}"#;
    let base64 = BASE64_STANDARD.encode(foreign);
    let inner = record(foreign);
    let outer = record(foreign).replacen('{', r#"{"RetryCount":1,"#, 1);
    let wrapped = raised("MSH|^~\\&|", 1, None).unwrap();
    let ours = raised(ENVELOPE, 2, None).unwrap();
    for (text, count, correlation_id, expected) in [
        ("MSH|^~\\&|A\rPID|1", 0, None, "MSH|^~\\&|A\rPID|1"),
        ("aGVsbG8=", 0, None, "hello"),
        (foreign, 2, Some("c-7"), foreign),
        (&base64, 2, Some("c-7"), foreign),
        (r#"{"Patient":"x"}"#, 0, None, r#"{"Patient":"x"}"#),
        (r#"{"RetryCount":null}"#, 0, None, r#"{"RetryCount":null}"#),
        ("[1]", 0, None, "[1]"),
        ("", 0, None, ""),
        (ENVELOPE, 0, Some("c-1"), "hi"),
        (&ours, 2, Some("c-1"), "hi"),
        (&record(ENVELOPE), 0, Some("c-1"), "hi"),
        (&record("plain"), 0, None, "plain"),
        (&inner, 2, Some("c-7"), foreign),
        (&outer, 1, Some("c-7"), foreign),
        (&wrapped, 1, None, "MSH|^~\\&|"),
    ] {
        let it = read(text);
        assert_eq!(it.retry_count, count, "{text}");
        assert_eq!(it.correlation_id.as_ref().map(|it| it.as_str()), correlation_id, "{text}");
        assert_eq!(body(&it), expected);
    }
    assert_eq!(read(&record("plain")).message.unwrap().id.as_str(), "o-1");
}

#[test]
fn what_cannot_be_decoded_is_told_apart() {
    for text in [
        r#"{"RetryCount":1"#,
        r#"{"RetryCount":-1}"#,
        r#"{"RetryCount":"2"}"#,
        r#"{"RetryCount":1.5}"#,
        r#"{"RetryCount":1e400}"#,
        r#"{"RetryCount":[]}"#,
        r#"{"RetryCount":true}"#,
        r#"{"bezoar":1,"id":"m"}"#,
        r#"{"bezoar":2,"anything":[]}"#,
        r#"{"bezoar":"one"}"#,
        r#"{"bezoar":1,"id":7,"type":"t","time":0,"body":"aGk="}"#,
        r#"{"OriginalMessageId":1,"OriginalText":"x"}"#,
        r#"{"OriginalMessageId":"o","OriginalText":{}}"#,
        "{",
        " \n{ nothing",
        &BASE64_STANDARD.encode(r#"{"RetryCount":"#),
        &record(r#"{"RetryCount":-1}"#),
        &record("{"),
        &record(&record(&record(&record(&record("too deep"))))),
    ] {
        assert!(read(text).message.is_none(), "{text}");
    }
    let it = read(r#"{"CorrelationId":"c-7","RetryCount":"two"}"#);
    assert_eq!(it.correlation_id.unwrap().as_str(), "c-7", "it can still be found");
}

#[test]
fn a_huge_count_is_large_enough() {
    for count in ["4294967295", "4294967296", "99999999999999999999999", "1e300"] {
        let text = format!(r#"{{"RetryCount":{count}}}"#);
        assert_eq!(read(&text).retry_count, u32::MAX, "{count}");
    }
    assert_eq!(read(r#"{"RetryCount":2.0}"#).retry_count, 2);
}

#[test]
fn a_rewrite_changes_the_count_and_no_other_byte() {
    for (text, expected) in [
        (r#"{"RetryCount":0}"#, r#"{"RetryCount":7}"#),
        (
            "{ \"b\" : 1.50 ,\n\t\"RetryCount\" :  12 , \"a\":[ ]}\r\n",
            "{ \"b\" : 1.50 ,\n\t\"RetryCount\" :  7 , \"a\":[ ]}\r\n",
        ),
        (r#"{"RetryCount":null,"é":"ü"}"#, r#"{"RetryCount":7,"é":"ü"}"#),
        (r#"{"Retry\u0043ount":1}"#, r#"{"Retry\u0043ount":7}"#),
        (r#"{"RetryCount":1,"x":2,"RetryCount":3}"#, r#"{"RetryCount":7,"x":2,"RetryCount":7}"#),
        ("{}", r#"{"RetryCount":7}"#),
        ("{ } ", "{ \"RetryCount\":7} "),
        ("{\"a\":1\n}", "{\"a\":1\n,\"RetryCount\":7}"),
        (r#"{"nested":{"RetryCount":1}}"#, r#"{"nested":{"RetryCount":1},"RetryCount":7}"#),
        ("MSH|", r#"{"bezoar":1,"text":"MSH|","RetryCount":7}"#),
    ] {
        assert_eq!(raised(text, 7, None).unwrap(), expected);
    }
    let base64 = raised(&BASE64_STANDARD.encode(r#"{"RetryCount":0}"#), 7, None).unwrap();
    assert_eq!(BASE64_STANDARD.decode(base64).unwrap(), br#"{"RetryCount":7}"#);
}

#[test]
fn only_what_is_ours_carries_a_ledger() {
    let ledger = failing();
    let foreign = raised(r#"{"a":1}"#, 1, Some(&ledger)).unwrap();
    assert_eq!(foreign, r#"{"a":1,"RetryCount":1}"#);
    for text in [ENVELOPE, "MSH|", &record("MSH|"), &record(ENVELOPE)] {
        let once = raised(text, 1, Some(&ledger)).unwrap();
        let twice = raised(&once, 2, Some(&failing_again(&read(&once)))).unwrap();
        let it = read(&twice);
        assert_eq!(it.retry_count, 2);
        let message = it.message.unwrap();
        assert_eq!((message.ledger.failed, message.ledger.history().len()), (2, 2), "{twice}");
        assert_eq!(message.body, read(text).message.unwrap().body);
    }
}

fn failing_again(text: &RetryText) -> Ledger {
    let mut ledger = text.message.as_ref().unwrap().ledger.clone();
    let failure = Failure::transient("no room");
    ledger.fail(vec![FailedTry::new(millis(0), std::time::Duration::ZERO, &failure)]);
    ledger
}

#[test]
fn a_text_that_is_full_is_counted_by_azure() {
    let full = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    let mut it = fetched(&full(LIMIT_BYTES));
    it.dequeue_count = 3;
    assert_eq!(raised(&it.text, 1, None), None);
    let counted =
        |it: &Fetched| super::read(it, ForeignText::Detect, &RetryFields::default()).retry_count;
    assert_eq!(counted(&it), 2);
    it.text = full(LIMIT_BYTES - 15);
    assert_eq!(raised(&it.text, 1, None).unwrap().len(), LIMIT_BYTES);
    assert_eq!(counted(&it), 0, "there is room for a count");
    it.text = "\"".repeat(LIMIT_BYTES);
    assert_eq!(counted(&it), 2, "it cannot be wrapped");
}

#[test]
fn a_ledger_that_does_not_fit_is_shortened_first() {
    let mut ledger = failing();
    let failure = Failure::transient("x".repeat(4_000));
    ledger.fail(vec![FailedTry::new(millis(0), std::time::Duration::ZERO, &failure)]);
    let text = "x".repeat(LIMIT_BYTES - 60);
    let raised = raised(&text, 1, Some(&ledger)).unwrap();
    assert!(raised.len() <= LIMIT_BYTES);
    assert_eq!(read(&raised).retry_count, 1);
    assert_eq!(body(&read(&raised)), text);
}

#[test]
fn names_of_fields_can_be_chosen() {
    let fields = RetryFields {
        retry_count: "attempts".to_owned(),
        correlation_id: "trace".to_owned(),
        body: Some("hl7".to_owned()),
    };
    check(&fields).unwrap();
    let text = r#"{"attempts":1,"trace":"c","hl7":"MSH|\r","RetryCount":"mine"}"#;
    let it = super::read(&fetched(text), ForeignText::Detect, &fields);
    assert_eq!((it.retry_count, it.correlation_id.as_ref().unwrap().as_str()), (1, "c"));
    assert_eq!(body(&it), "MSH|\r");
    let raised = rewritten(text, ForeignText::Detect, &fields, 2, None).unwrap();
    assert_eq!(raised, text.replace(r#""attempts":1"#, r#""attempts":2"#));
    for text in ["MSH|", r#"{"attempts":1}"#, r#"{"hl7":7}"#] {
        let it = super::read(&fetched(text), ForeignText::Detect, &fields);
        assert!(it.message.is_none(), "{text} has no hl7");
    }
    let named = |retry_count: &str, correlation_id: &str| {
        let (retry_count, correlation_id) = (retry_count.to_owned(), correlation_id.to_owned());
        check(&RetryFields { retry_count, correlation_id, body: None })
    };
    assert!(named("", "c").is_err() && named("c", "c").is_err() && named("body", "c").is_err());
}

proptest! {
    /// Whatever a text is, it is read without a panic, and a rewrite keeps its message and raises its count.
    #[test]
    fn any_text_survives_a_rewrite(
        text in prop_oneof![
            any::<String>(),
            "[{}\":,a-z0-9 \\\\]{0,40}",
            any::<Vec<u8>>().prop_map(|it| BASE64_STANDARD.encode(it)),
            prop::collection::vec(("[a-z]{1,5}|RetryCount", 0..5_u32), 0..6).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(name, it)| format!("{name:?}: {it}")).collect();
                format!("{{{}}}", members.join(" , "))
            }),
        ],
    ) {
        let before = read(&text);
        let Some(message) = before.message else { return Ok(()) };
        let raised = raised(&text, before.retry_count + 1, Some(&failing())).unwrap();
        let after = read(&raised);
        prop_assert_eq!(after.retry_count, before.retry_count + 1);
        if !raised.starts_with("{\"bezoar\":1") && !text.contains("RetryCount") {
            prop_assert!(object(&text, ForeignText::Detect).is_some());
        } else if raised.starts_with("{\"bezoar\":1") {
            prop_assert_eq!(after.message.unwrap().body, message.body);
        }
    }
}
