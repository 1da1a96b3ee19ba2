//! The JSON object in a text, its members, and a change of one of them.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::value::RawValue;

use crate::{
    ForeignText,
    wire::{json, stored_text::Members},
};

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Plain,
    Base64,
}

impl Written {
    pub(super) fn encode(self, text: String) -> String {
        match self {
            Self::Plain => text,
            Self::Base64 => BASE64_STANDARD.encode(text),
        }
    }
}

/// The JSON object in a text, also in base64.
pub(super) fn object(text: &str, foreign: ForeignText) -> Option<(String, Written)> {
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
pub(super) fn is_broken_object(text: &str, foreign: ForeignText) -> bool {
    let begins = |text: &str| text.trim_start().starts_with('{');
    let decoded = || {
        let bytes = BASE64_STANDARD.decode(text).ok().filter(|_| foreign != ForeignText::Plain)?;
        String::from_utf8(bytes).ok()
    };
    begins(text) || decoded().is_some_and(|it| begins(&it))
}

pub(super) fn member<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.0.iter().rev().find(|(it, _)| it == name).map(|(_, value)| *value)
}

pub(super) fn has(members: &Members<'_>, name: &str) -> bool {
    member(members, name).is_some()
}

pub(super) fn text_of(members: &Members<'_>, name: &str) -> Option<String> {
    member(members, name).and_then(|it| serde_json::from_str(it.get()).ok())
}

/// Whether an object has the two members that make it a poison record.
pub(super) fn is_record(members: &Members<'_>) -> bool {
    let either = |upper, lower| has(members, upper) || has(members, lower);
    either("OriginalMessageId", "originalMessageId") && either("OriginalText", "originalText")
}

/// The object with another value of one member, or with one member more. Every other byte stays as it is.
pub(super) fn with_value(object: &str, name: &str, value: &str) -> Option<String> {
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
