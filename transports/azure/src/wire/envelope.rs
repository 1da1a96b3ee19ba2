//! A message of ours as JSON: `{"bezoar":1,"id":…,"type":…,"time":…,"body":"<base64>","ledger":{…}}`.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::{
    ContentType, CorrelationId, Headers, Ledger, Message, MessageId, MessageType, millis,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{LIMIT_BYTES, blob_reference::BlobReference, json, ledger, with_member};

/// The version of the envelope that this program writes, and the highest that it reads.
pub(crate) const VERSION: u32 = 1;
/// The largest body: 60 KiB as base64, which leaves 4 KiB for everything else.
pub(crate) const LARGEST_BODY_BYTES: usize = 45 * 1024;
/// What a new message leaves free, so that its counts, and the reason if it is dead-lettered, can be added.
const RESERVE_BYTES: usize = 1024;

#[derive(Serialize, Deserialize)]
pub(super) struct Envelope<'a> {
    bezoar: u32,
    id: Cow<'a, str>,
    r#type: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<Cow<'a, str>>,
    /// Milliseconds since 1970.
    time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// Base64; absent if the body is a blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<Cow<'a, BlobReference>>,
    #[serde(borrow, skip_serializing)]
    ledger: Option<&'a RawValue>,
}

/// The text of a message. If it does not fit, the size that it would have.
pub(crate) fn write(message: &Message) -> Result<String, usize> {
    with_ledger(without_ledger(message, None), message)
}

/// The same, with a reference in place of the body.
pub(crate) fn write_reference(message: &Message, blob: &BlobReference) -> Result<String, usize> {
    with_ledger(without_ledger(message, Some(blob)), message)
}

fn with_ledger(plain: String, message: &Message) -> Result<String, usize> {
    let limit = LIMIT_BYTES - RESERVE_BYTES;
    if message.ledger == Ledger::default() && plain.len() <= limit {
        return Ok(plain);
    }
    let mut shortened = message.ledger.clone();
    let ledger_fits =
        |it: &Ledger| with_member(&plain, "ledger", &ledger::write(it)).len() <= limit;
    shortened.fit(ledger_fits);
    let text = with_member(&plain, "ledger", &ledger::write(&shortened));
    if text.len() <= limit { Ok(text) } else { Err(text.len() + RESERVE_BYTES) }
}

fn without_ledger(message: &Message, blob: Option<&BlobReference>) -> String {
    let text = |it: &'_ str| Cow::Owned(it.to_owned());
    json(&Envelope {
        bezoar: VERSION,
        id: message.id.as_str().into(),
        r#type: message.message_type.as_str().into(),
        correlation_id: message.correlation_id.as_ref().map(|it| text(it.as_str())),
        causation_id: message.causation_id.as_ref().map(|it| text(it.as_str())),
        content_type: message.content_type.as_ref().map(|it| text(it.as_str())),
        time: message.time.as_millisecond(),
        expires_at: message.expires_at.map(|it| it.as_millisecond()),
        headers: message
            .headers
            .iter()
            .map(|(name, value)| (name.into(), value.reveal().into()))
            .collect(),
        body: blob.is_none().then(|| BASE64_STANDARD.encode(message.body.reveal()).into()),
        blob: blob.map(Cow::Borrowed),
        ledger: None,
    })
}

/// The message in an envelope, without a body if that is a blob; `None` if a part of it is damaged.
pub(super) fn read(text: &str) -> Option<Message> {
    let it: Envelope<'_> = serde_json::from_str(text).ok()?;
    let body = match (it.body, it.blob) {
        (Some(body), None) => BASE64_STANDARD.decode(body.as_bytes()).ok()?,
        (None, Some(blob)) if blob.is_ours() => Vec::new(),
        _ => return None,
    };
    let (id, kind) = (MessageId::new(it.id).ok()?, MessageType::new(it.r#type).ok()?);
    let mut message = Message::new(id, kind, millis(it.time), body);
    message.correlation_id = it.correlation_id.map(CorrelationId::new).transpose().ok()?;
    message.causation_id = it.causation_id.map(MessageId::new).transpose().ok()?;
    message.content_type = it.content_type.map(ContentType::new).transpose().ok()?;
    message.expires_at = it.expires_at.map(millis);
    message.headers = it
        .headers
        .into_iter()
        .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
        .collect::<Headers>();
    message.ledger = it.ledger.map(|it| ledger::read(it.get())).unwrap_or_default();
    Some(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(body: Vec<u8>) -> Message {
        let (id, kind) = (MessageId::new("m-1").unwrap(), MessageType::new("lab").unwrap());
        Message::new(id, kind, millis(-1), body)
    }

    proptest! {
        #[test]
        fn an_envelope_is_restored(
            body in prop::collection::vec(any::<u8>(), 0..200),
            headers in prop::collection::btree_map(".{1,9}", "\\PC{0,9}|\\x00|\u{fffe}|\\r\\n", 0..5),
            replayed in 0..3_u32,
        ) {
            let mut message = message(body)
                .with_correlation_id(CorrelationId::new("é \"c\"").unwrap())
                .with_expires_at(millis(7));
            message.ledger.replayed = replayed;
            for (name, value) in headers {
                message = message.with_header(name, value);
            }
            let text = write(&message).unwrap();
            let is_xml = text.chars().all(|it| it >= ' ' && it != '\u{fffe}');
            prop_assert!(is_xml, "it has a character that XML does not allow");
            prop_assert_eq!(read(&text), Some(message));
        }
    }

    #[test]
    fn a_message_that_does_not_fit_is_measured() {
        assert!(write(&message(vec![7; LARGEST_BODY_BYTES])).is_ok());
        let full = message(vec![7; LARGEST_BODY_BYTES]).with_header("h", "x".repeat(4_000));
        assert!(write(&full).unwrap_err() > LIMIT_BYTES);
    }

    #[test]
    fn a_damaged_envelope_is_no_message() {
        let good = r#"{"bezoar":1,"id":"m","type":"t","time":0,"body":"aGk="}"#;
        assert_eq!(read(good).unwrap().body, "hi".into());
        for (from, to) in [
            ("aGk=", "!"),
            (r#""id":"m","#, ""),
            (r#""m""#, r#""""#),
            (r#""time":0"#, r#""time":"now""#),
            (r#""t""#, "7"),
        ] {
            assert_eq!(read(&good.replace(from, to)), None, "{to}");
        }
    }
}
