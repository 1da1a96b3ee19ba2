//! The text of a fetched message: what it says, and how it is rewritten.
//!
//! A retry changes only the ledger. In an envelope every other member stays as it is, also those that this program does
//! not know. A text of another program is wrapped, unchanged, beside the ledger: `{"bezoar":1,"text":…,"ledger":…}`.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::{Body, Ledger, Message, MessageId, MessageType};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{LIMIT_BYTES, envelope, json, ledger, with_member};
use crate::{ForeignText, connection::queue_client::Fetched};

/// The type of a message that was sent without one.
pub(crate) const UNTYPED: &str = "untyped";

/// What a text is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A message, of ours or of another program.
    Message(Box<Message>),
    /// An envelope of ours that cannot be read.
    Damaged,
    /// An envelope of a version that only a newer program can read.
    Newer(u32),
}

/// The two members that make a text one of ours.
#[derive(Deserialize)]
struct Marked<'a> {
    bezoar: u32,
    text: Option<String>,
    #[serde(borrow)]
    ledger: Option<&'a RawValue>,
}

fn marked(text: &str) -> Option<Marked<'_>> {
    serde_json::from_str(text).ok()
}

/// Reads a fetched text. The ledger's acquisitions include all earlier deliveries, and not this one.
pub(crate) fn read(fetched: &Fetched, foreign: ForeignText) -> Content {
    let mut message = match marked(&fetched.text) {
        None if claims_to_be_ours(&fetched.text) => return Content::Damaged,
        None => foreign_message(&fetched.text, fetched, foreign),
        Some(it) if it.bezoar > envelope::VERSION => return Content::Newer(it.bezoar),
        Some(Marked { text: Some(text), ledger, .. }) => {
            let mut message = foreign_message(&text, fetched, foreign);
            message.ledger = ledger.map(|it| ledger::read(it.get())).unwrap_or_default();
            message
        }
        Some(_) => match envelope::read(&fetched.text) {
            Some(message) => message,
            None => return Content::Damaged,
        },
    };
    let earlier = fetched.dequeue_count - 1;
    message.ledger.acquired = message.ledger.acquired.saturating_add(earlier);
    Content::Message(Box::new(message))
}

/// Whether a text is an envelope of ours, and not a wrapped text of another program.
pub(crate) fn is_envelope(text: &str) -> bool {
    marked(text).is_some_and(|it| it.text.is_none())
}

/// The text itself as the body, for an envelope that cannot be read.
pub(crate) fn as_plain(fetched: &Fetched) -> Message {
    foreign_message(&fetched.text, fetched, ForeignText::Plain)
}

fn claims_to_be_ours(text: &str) -> bool {
    text.starts_with("{\"bezoar\":")
}

fn foreign_message(text: &str, fetched: &Fetched, foreign: ForeignText) -> Message {
    let id = MessageId::new(&fetched.id).expect("Azure's ids are short and printable");
    let kind = MessageType::new(UNTYPED).expect("a valid name");
    Message::new(id, kind, fetched.inserted_at, body(text, foreign))
}

/// The body in a text of another program.
pub(crate) fn body(text: &str, foreign: ForeignText) -> Body {
    let decoded = match foreign {
        ForeignText::Plain => None,
        ForeignText::Base64 => BASE64_STANDARD.decode(text).ok(),
        ForeignText::Detect => {
            BASE64_STANDARD.decode(text).ok().filter(|it| std::str::from_utf8(it).is_ok())
        }
    };
    decoded.map_or_else(|| text.to_owned().into(), Body::from)
}

/// The text as it was sent: without a ledger, and not wrapped. An envelope that cannot be read stays as it is.
pub(crate) fn original(text: &str) -> String {
    match marked(text) {
        Some(Marked { text: Some(original), .. }) => original,
        Some(_) if envelope::read(text).is_some() => without_ledger(text),
        _ => text.to_owned(),
    }
}

/// The text with another ledger, whose history is shortened if it must be. `None` if not even its counts fit.
pub(crate) fn rewritten(text: &str, ledger: &Ledger, dequeue_count: u32) -> Option<String> {
    let base = match marked(text) {
        Some(_) => without_ledger(text),
        None => json(&serde_json::json!({ "bezoar": envelope::VERSION, "text": text })),
    };
    let mut ledger = ledger.clone();
    // Azure counts the deliveries of this message: only those before it was sent are stored.
    ledger.acquired = ledger.acquired.saturating_sub(dequeue_count);
    let with = |it: &Ledger| with_member(&base, "ledger", &ledger::write(it));
    ledger.fit(|it| with(it).len() <= LIMIT_BYTES).then(|| with(&ledger))
}

/// An object of ours without its ledger; all other members are kept literally and in their order.
fn without_ledger(text: &str) -> String {
    let Ok(Members(members)) = serde_json::from_str(text) else { return text.to_owned() };
    let members = members.iter().filter(|(name, _)| name != "ledger");
    let members: Vec<_> =
        members.map(|(name, value)| format!("{}:{}", json(name), value.get())).collect();
    format!("{{{}}}", members.join(","))
}

/// The members of an object in their order.
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'a> Visitor<'a> for InOrder {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Members<'a>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::{FailedTry, Failure, millis};

    use super::*;
    use crate::connection::queue_client::PopReceipt;

    fn fetched(text: &str, dequeue_count: u32) -> Fetched {
        let (id, inserted_at) = ("8f2c".to_owned(), millis(5_000));
        let (pop_receipt, text) = (PopReceipt::default(), text.to_owned());
        Fetched { id, pop_receipt, text, dequeue_count, inserted_at }
    }

    #[track_caller]
    fn message(text: &str, dequeue_count: u32) -> Message {
        match read(&fetched(text, dequeue_count), ForeignText::Detect) {
            Content::Message(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    fn failing(ledger: &Ledger) -> Ledger {
        let mut ledger = ledger.clone();
        ledger.acquire();
        let failure = Failure::transient("no room");
        ledger.fail(vec![FailedTry::new(millis(0), std::time::Duration::ZERO, &failure)]);
        ledger
    }

    #[test]
    fn foreign_texts_are_read_as_the_option_says() {
        for (text, detect, plain, base64) in [
            ("hello world", "hello world", "hello world", "hello world"),
            ("aGVsbG8=", "hello", "aGVsbG8=", "hello"),
            ("test", "test", "test", "\u{fffd}"), // valid base64 that is not UTF-8
            ("MSH|^~\\&|\r", "MSH|^~\\&|\r", "MSH|^~\\&|\r", "MSH|^~\\&|\r"),
            ("", "", "", ""),
            (" x ", " x ", " x ", " x "),
        ] {
            let shown = |foreign| {
                String::from_utf8_lossy(body(text, foreign).reveal())
                    .replace("\u{fffd}\u{fffd}-", "\u{fffd}")
            };
            assert_eq!(shown(ForeignText::Detect), detect, "{text}");
            assert_eq!(shown(ForeignText::Plain), plain, "{text}");
            assert_eq!(shown(ForeignText::Base64), base64, "{text}");
        }
    }

    #[test]
    fn a_foreign_text_keeps_its_text_id_and_counts_through_rewrites() {
        for text in ["MSH|^~\\&|\r\n é\u{85}", "aGVsbG8=", "{\"RetryCount\": 2}", "{", ""] {
            let first = message(text, 1);
            let rewritten = rewritten(text, &failing(&first.ledger), 1).unwrap();
            let second = message(&rewritten, 2);
            assert_eq!((&second.id, &second.body), (&first.id, &first.body));
            assert_eq!((second.ledger.acquired, second.ledger.failed), (1, 1));
            assert_eq!(original(&rewritten), text);
        }
    }

    #[test]
    fn members_of_other_versions_survive_a_rewrite() {
        let text = r#"{"bezoar":1,"id":"m","type":"t","time":0,"body":"aGk=","ledger":{"acquired":4},"new":[1.50]}"#;
        let first = message(text, 3);
        assert_eq!(first.ledger.acquired, 6, "4 before it was sent, and 2 of 3 since");
        let rewritten = rewritten(text, &failing(&first.ledger), 3).unwrap();
        assert!(rewritten.contains(r#""new":[1.50]"#), "{rewritten}");
        let second = message(&rewritten, 4);
        assert_eq!((second.ledger.acquired, second.ledger.failed), (7, 1));
        let sent = r#"{"bezoar":1,"id":"m","type":"t","time":0,"body":"aGk=","new":[1.50]}"#;
        assert_eq!(original(&rewritten), sent);
    }

    #[test]
    fn an_envelope_that_cannot_be_read_is_told_from_a_foreign_text() {
        let content = |text: &str| read(&fetched(text, 1), ForeignText::Detect);
        assert_eq!(content(r#"{"bezoar":2,"anything":[]}"#), Content::Newer(2));
        assert_eq!(content(r#"{"bezoar":1,"id":"m"}"#), Content::Damaged);
        assert_eq!(content(r#"{"bezoar":1,"id":"m","ty"#), Content::Damaged, "cut off");
        assert_eq!(content(r#"{"bezoar":"one"}"#), Content::Damaged);
        assert!(matches!(content(r#"{"animal":"bezoar"}"#), Content::Message(_)));
    }

    #[test]
    fn a_rewrite_drops_history_then_detail_then_everything() {
        let mut ledger = failing(&Ledger::default());
        for _ in 0..20 {
            ledger = failing(&ledger);
        }
        let fits = |text: &str| rewritten(text, &ledger, 0).map(|it| it.len());
        let tries = |room: usize| {
            let text = rewritten(&"x".repeat(LIMIT_BYTES - room), &ledger, 0).unwrap();
            assert!(text.len() <= LIMIT_BYTES);
            message(&text, 1).ledger.history().len()
        };
        assert_eq!(tries(8_000), 21);
        assert!((1..21).contains(&tries(1_000)));
        assert_eq!(tries(100), 0);
        assert_eq!(fits(&"x".repeat(LIMIT_BYTES - 10)), None);
    }
}
