//! A text of a poison queue: what to deliver, and how often that was tried.
//!
//! The retry count is a member of the outermost JSON object, whatever that is: a message of another program, an envelope
//! of ours, or a poison record. If that has none, the count of the message inside it applies. A retry replaces the value,
//! or adds the member, and leaves every other byte alone. A text that is no object is wrapped, as a retry of the
//! transport does it: `{"bezoar":1,"text":…,"RetryCount":1}`.
//!
//! What is ours is never delivered as it is stored, so it can carry a ledger too: then its dead letter tells why each
//! delivery failed.

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::{CorrelationId, Invalid, Ledger, Message, MessageId, poison_retry::RetryFields};
use serde_json::value::{RawValue, Value};

use super::{
    LIMIT_BYTES, envelope, json, ledger,
    poison_record::{self, Unwrapped},
    stored_text::{self, Content, Members},
};
use crate::{ForeignText, connection::queue_client::Fetched};

/// How many records and wrappers are opened to find the message.
const MOST_LAYERS: u32 = 4;
/// Only a text that is about as large as this can be too large to be rewritten.
const NEARLY_FULL_BYTES: usize = LIMIT_BYTES / 3;
const LEDGER: &str = "ledger";

/// Checks the names, and that the retry count does not replace a member of our own messages.
pub(crate) fn check(fields: &RetryFields) -> Result<(), Invalid> {
    fields.check()?;
    if OURS.contains(&fields.retry_count.as_str()) {
        let problem = format!("{:?} is a member of Bezoar's own messages", fields.retry_count);
        return Err(Invalid::new("retry_count_field", problem));
    }
    Ok(())
}

/// Members that a retry count must not replace.
const OURS: [&str; 14] = [
    "bezoar",
    "id",
    "type",
    "time",
    "body",
    "blob",
    "text",
    "headers",
    LEDGER,
    "dead",
    "Bezoar",
    "OriginalMessageId",
    "OriginalText",
    "DequeueCount",
];

/// What a text of a poison queue says.
#[derive(Debug)]
pub(crate) struct RetryText {
    pub(crate) retry_count: u32,
    pub(crate) correlation_id: Option<CorrelationId>,
    /// The message to deliver, without records around it; `None` if it cannot be decoded.
    pub(crate) message: Option<Message>,
    /// Azure's id of the message that became a record, and its text.
    pub(crate) original: Option<(String, String)>,
}

/// Reads a fetched text.
pub(crate) fn read(fetched: &Fetched, foreign: ForeignText, fields: &RetryFields) -> RetryText {
    let reader = Reader { fetched, foreign, fields };
    let layer = reader.layer(&fetched.id, &fetched.text, MOST_LAYERS);
    let found = layer.as_ref().ok();
    let correlation_id = match found {
        Some(layer) => layer.message.correlation_id.clone(),
        None => reader.correlation_id(),
    };
    let mut retry_count = found.and_then(|it| it.retry_count).unwrap_or_default();
    if fetched.text.len() > NEARLY_FULL_BYTES
        && rewritten(&fetched.text, foreign, fields, retry_count.saturating_add(1), None).is_none()
    {
        // The count cannot be stored. Azure's own count is never too low.
        retry_count = retry_count.max(fetched.dequeue_count - 1);
    }
    let (message, original) = layer.ok().map(|it| (it.message, it.original)).unzip();
    RetryText { retry_count, correlation_id, message, original: original.flatten() }
}

/// The text with another retry count, and with this ledger if the text is ours and the ledger fits. `None` if not even the
/// count fits.
pub(crate) fn rewritten(
    text: &str,
    foreign: ForeignText,
    fields: &RetryFields,
    retry_count: u32,
    ledger: Option<&Ledger>,
) -> Option<String> {
    let (base, written) = match object(text, foreign) {
        Some((object, written)) => (object, written),
        None => {
            let wrapped = serde_json::json!({ "bezoar": envelope::VERSION, "text": text });
            (json(&wrapped), Written::Plain)
        }
    };
    let members: Members<'_> = serde_json::from_str(&base).ok()?;
    let is_ours = is_record(&members) || has(&members, "bezoar");
    let counted = with_value(&base, &fields.retry_count, &retry_count.to_string())?;
    let write = |ledger: Option<&Ledger>| {
        let ledger = ledger.map(ledger::write).filter(|it| !it.is_empty());
        let text = ledger.map_or(Some(counted.clone()), |it| with_value(&counted, LEDGER, &it));
        text.map(|it| written.encode(it)).filter(|it| it.len() <= LIMIT_BYTES)
    };
    let mut ledger = ledger.filter(|_| is_ours).cloned();
    let fits = ledger.as_mut().is_some_and(|it| it.fit(|it| write(Some(it)).is_some()));
    write(ledger.as_ref().filter(|_| fits))
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Plain,
    Base64,
}

impl Written {
    fn encode(self, text: String) -> String {
        match self {
            Self::Plain => text,
            Self::Base64 => BASE64_STANDARD.encode(text),
        }
    }
}

/// The JSON object in a text, also in base64.
fn object(text: &str, foreign: ForeignText) -> Option<(String, Written)> {
    if is_object(text) {
        return Some((text.to_owned(), Written::Plain));
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()?;
    (foreign != ForeignText::Plain && is_object(&decoded)).then_some((decoded, Written::Base64))
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<Members<'_>>(text).is_ok()
}

/// A text that begins like an object and is none, plain or in base64.
fn is_broken_object(text: &str, foreign: ForeignText) -> bool {
    let begins = |text: &str| text.trim_start().starts_with('{');
    let decoded = || {
        let bytes = BASE64_STANDARD.decode(text).ok().filter(|_| foreign != ForeignText::Plain)?;
        String::from_utf8(bytes).ok()
    };
    begins(text) || decoded().is_some_and(|it| begins(&it))
}

struct Reader<'a> {
    fetched: &'a Fetched,
    foreign: ForeignText,
    fields: &'a RetryFields,
}

/// A text, or the text in a record or wrapper.
struct Layer {
    /// `None` if the text has no count.
    retry_count: Option<u32>,
    message: Message,
    original: Option<(String, String)>,
}

/// The text cannot be decoded.
struct Undecodable;

impl Reader<'_> {
    /// The correlation id of a text that cannot be decoded as a whole.
    fn correlation_id(&self) -> Option<CorrelationId> {
        let (object, _) = object(&self.fetched.text, self.foreign)?;
        let members: Members<'_> = serde_json::from_str(&object).ok()?;
        CorrelationId::new(text_of(&members, &self.fields.correlation_id)?).ok()
    }

    fn layer(&self, id: &str, text: &str, layers: u32) -> Result<Layer, Undecodable> {
        let Some((object, _)) = object(text, self.foreign) else {
            return self.plain(id, text);
        };
        let members: Members<'_> = serde_json::from_str(&object).map_err(|_| Undecodable)?;
        let retry_count = count(&members, &self.fields.retry_count)?;
        let mut layer = if is_record(&members) {
            self.record(&object, layers)?
        } else if let Some(marker) = member(&members, "bezoar") {
            self.ours(id, &object, marker, &members, layers)?
        } else {
            self.foreign_object(id, text, &members)?
        };
        layer.retry_count = retry_count.or(layer.retry_count);
        if let Some(id) = text_of(&members, &self.fields.correlation_id) {
            layer.message.correlation_id =
                layer.message.correlation_id.or(CorrelationId::new(id).ok());
        }
        if let Some(written) = member(&members, LEDGER).filter(|_| is_record(&members)) {
            layer.message.ledger = ledger::read(written.get());
        }
        Ok(layer)
    }

    /// A text that is no object.
    fn plain(&self, id: &str, text: &str) -> Result<Layer, Undecodable> {
        if is_broken_object(text, self.foreign) || self.fields.body.is_some() {
            return Err(Undecodable);
        }
        Ok(Layer { retry_count: None, message: self.message(id, text)?, original: None })
    }

    fn record(&self, object: &str, layers: u32) -> Result<Layer, Undecodable> {
        let Unwrapped { message_id, text, ledger } =
            poison_record::unwrap(object).ok_or(Undecodable)?;
        let id = if MessageId::new(&message_id).is_ok() { &message_id } else { &self.fetched.id };
        let mut layer = self.inner(id, &text, layers)?;
        layer.message.ledger = ledger.unwrap_or(layer.message.ledger);
        layer.original = layer.original.or(Some((id.clone(), text)));
        Ok(layer)
    }

    /// An envelope of ours, or a wrapper around the text of another program.
    fn ours(
        &self,
        id: &str,
        object: &str,
        marker: &RawValue,
        members: &Members<'_>,
        layers: u32,
    ) -> Result<Layer, Undecodable> {
        let version: u32 = serde_json::from_str(marker.get()).map_err(|_| Undecodable)?;
        match text_of(members, "text") {
            Some(text) if version <= envelope::VERSION => {
                let mut layer = self.inner(id, &text, layers)?;
                if let Some(written) = member(members, LEDGER) {
                    layer.message.ledger = ledger::read(written.get());
                }
                Ok(layer)
            }
            _ => {
                let message = self.message(id, object)?;
                Ok(Layer { retry_count: None, message, original: None })
            }
        }
    }

    fn foreign_object(
        &self,
        id: &str,
        text: &str,
        members: &Members<'_>,
    ) -> Result<Layer, Undecodable> {
        let mut message = self.message(id, text)?;
        if let Some(field) = &self.fields.body {
            message.body = text_of(members, field).ok_or(Undecodable)?.into();
        }
        Ok(Layer { retry_count: None, message, original: None })
    }

    fn inner(&self, id: &str, text: &str, layers: u32) -> Result<Layer, Undecodable> {
        match layers {
            0 => Err(Undecodable),
            _ => self.layer(id, text, layers - 1),
        }
    }

    fn message(&self, id: &str, text: &str) -> Result<Message, Undecodable> {
        let (id, text) = (id.to_owned(), text.to_owned());
        let fetched = Fetched { id, text, ..self.fetched.clone() };
        match stored_text::read(&fetched, self.foreign) {
            Content::Message(message) => Ok(*message),
            Content::Damaged | Content::Newer(_) => Err(Undecodable),
        }
    }
}

fn member<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.0.iter().rev().find(|(it, _)| it == name).map(|(_, value)| *value)
}

fn has(members: &Members<'_>, name: &str) -> bool {
    member(members, name).is_some()
}

fn text_of(members: &Members<'_>, name: &str) -> Option<String> {
    member(members, name).and_then(|it| serde_json::from_str(it.get()).ok())
}

/// Whether an object has the two members that make it a poison record.
fn is_record(members: &Members<'_>) -> bool {
    let either = |upper, lower| has(members, upper) || has(members, lower);
    either("OriginalMessageId", "originalMessageId") && either("OriginalText", "originalText")
}

/// The retry count of an object; `None` if it is absent or null. A count that is too large for us is large enough.
fn count(members: &Members<'_>, name: &str) -> Result<Option<u32>, Undecodable> {
    let Some(raw) = member(members, name) else { return Ok(None) };
    match serde_json::from_str(raw.get()).map_err(|_| Undecodable)? {
        Value::Null => Ok(None),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => Ok(Some(u32::try_from(count).unwrap_or(u32::MAX))),
            (None, Some(count)) if count >= 0.0 && count.fract() == 0.0 => {
                Ok(Some(if count > f64::from(u32::MAX) { u32::MAX } else { count as u32 }))
            }
            _ => Err(Undecodable),
        },
        _ => Err(Undecodable),
    }
}

/// The object with another value of one member, or with one member more. Every other byte stays as it is.
fn with_value(object: &str, name: &str, value: &str) -> Option<String> {
    let members: Members<'_> = serde_json::from_str(object).ok()?;
    let start = object.as_ptr() as usize;
    let places = members.0.iter().filter(|(it, _)| it == name).map(|(_, raw)| {
        let at = raw.get().as_ptr() as usize - start;
        at..at + raw.get().len()
    });
    let places: Vec<_> = places.collect();
    let mut changed = object.to_owned();
    if places.is_empty() {
        let separator = if members.0.is_empty() { "" } else { "," };
        changed.insert_str(object.rfind('}')?, &format!("{separator}{}:{value}", json(&name)));
    }
    for place in places.into_iter().rev() {
        changed.replace_range(place, value);
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
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
            (
                r#"{"RetryCount":1,"x":2,"RetryCount":3}"#,
                r#"{"RetryCount":7,"x":2,"RetryCount":7}"#,
            ),
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
        let counted = |it: &Fetched| {
            super::read(it, ForeignText::Detect, &RetryFields::default()).retry_count
        };
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
}
