//! The text with which a dead letter goes back to its queue, and the headers that remember it.

use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::{Invalid, Message, Reason};

/// Marks a letter that is sent back as it came: one that another program set aside, or an envelope that this program
/// cannot read. Its value says how the body was written in the text, so that the consumer gets what it expects.
pub(super) const TEXT_HEADER: &str = "bezoar-azure-text";
/// The value of [`TEXT_HEADER`] for an envelope that this program cannot read. The body is its whole text.
pub(super) const UNREADABLE: &str = "envelope";
/// Marks a letter whose body in Blob Storage is gone. Its value is the code of the reason.
const BODY_HEADER: &str = "bezoar-azure-body";

/// Marks a letter of another program with how its body was written in `text`.
pub(super) fn as_written(message: Message, text: &str) -> Message {
    let plain = message.body.reveal().as_ref() == text.as_bytes();
    message.with_header(TEXT_HEADER, if plain { "plain" } else { "base64" })
}

pub(super) fn is_unreadable(message: &Message) -> bool {
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
