//! Edits of a dead letter's message: a new body, changed headers or a JSON patch.

mod measure;
mod patching;

use bezoar_core::{Body, Invalid, Message};
use json_patch::Patch;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::{
    measure::{text_end, values_in, written},
    patching::Patching,
};

/// The maximum number of operations in a patch.
const PATCH_LIMIT: usize = 1_000;
/// The maximum number of values in a body that is patched. In memory a value of few bytes takes hundreds.
const VALUE_LIMIT: usize = 100_000;

/// The changes to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The new body.
    pub body: Option<Body>,
    /// A JSON patch (RFC 6902) of the body; applied after [`body`](Self::body) if both are given.
    pub patch: Option<Patch>,
    /// Headers with their new values; `None` removes a header.
    pub headers: Vec<(String, Option<String>)>,
}

/// The edited message, and a summary that reveals nothing of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The edited message, with the ledger of the original.
    pub message: Message,
    /// What was changed, without content, and a hash of both versions.
    pub summary: String,
}

/// Why an edit failed. Its text contains no content and is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The edited message equals the original.
    #[error("the edit changes nothing")]
    Nothing,
    /// The body is not JSON, so it cannot be patched.
    #[error("the body is not JSON and cannot be patched; replace the whole body instead")]
    NotJson,
    /// An operation of the patch failed.
    #[error("the patch does not apply: operation {0} failed")]
    Patch(usize),
    /// The patch is too long.
    #[error("the patch is too long: at most {0} operations are allowed")]
    TooLong(usize),
    /// The patch copies parts of the body or shifts elements of its arrays too often.
    #[error(
        "the patch copies or shifts too much: stopped at operation {0}; replace the whole body instead"
    )]
    TooMuchWork(usize),
    /// The patch nests the body too deep.
    #[error("the new body nests too deep: at most {0} levels are allowed")]
    TooDeep(usize),
    /// The body has too many values, or the patch copies too many.
    #[error("a body with more than {0} values cannot be patched; replace the whole body instead")]
    TooManyValues(usize),
    /// Rewriting the body would change parts that the patch does not mention.
    #[error(
        "the body has repeated names or long numbers that a patch would alter; replace the whole body instead"
    )]
    NotFaithful,
    /// The body is too large.
    #[error("the new body has {actual} bytes; at most {limit} are allowed")]
    TooLarge {
        /// The body's size in bytes.
        actual: usize,
        /// The largest allowed size in bytes.
        limit: usize,
    },
    /// A header is invalid.
    #[error(transparent)]
    Header(#[from] Invalid),
}

impl Edit {
    /// Applies the edit; the new body may have at most `limit` bytes.
    ///
    /// The time is proportional to the sizes of body and patch and to `limit`. In async code, call it where
    /// blocking is allowed.
    ///
    /// # Errors
    ///
    /// [`EditError`], which contains nothing of the body.
    pub fn apply(&self, original: &Message, limit: usize) -> Result<Edited, EditError> {
        let mut message = original.clone();
        if let Some(body) = &self.body {
            message.body = body.clone();
        }
        if let Some(patch) = &self.patch {
            message.body = patched(&message.body, patch, limit)?;
        }
        if message.body.len() > limit {
            return Err(EditError::TooLarge { actual: message.body.len(), limit });
        }
        for (name, value) in &self.headers {
            match value {
                Some(value) => drop(message.headers.insert(name.clone(), value.clone().into())),
                None => drop(message.headers.remove(name)),
            }
        }
        message.check_headers()?;
        if message.body == original.body && message.headers == original.headers {
            return Err(EditError::Nothing);
        }
        Ok(Edited { summary: summary(original, &message), message })
    }
}

/// Applies the whole patch or nothing.
fn patched(body: &Body, patch: &Patch, limit: usize) -> Result<Body, EditError> {
    let (value, bytes) = faithful(body)?;
    if patch.0.len() > PATCH_LIMIT {
        return Err(EditError::TooLong(PATCH_LIMIT));
    }
    let mut patching = Patching::new(value, bytes, limit);
    for (place, operation) in patch.0.iter().enumerate() {
        patching.apply(place, operation)?;
    }
    Ok(written(&patching.into_value()).into())
}

/// Parses the body as JSON, if writing it back would change nothing: a number with too many digits, or a name that
/// occurs twice, must not change because another part is patched. Also returns its size when written.
fn faithful(body: &Body) -> Result<(Value, usize), EditError> {
    let text = std::str::from_utf8(body.reveal()).map_err(|_| EditError::NotJson)?;
    if values_in(text) > VALUE_LIMIT {
        return Err(EditError::TooManyValues(VALUE_LIMIT));
    }
    let value = serde_json::from_str(text).map_err(|_| EditError::NotJson)?;
    let again = written(&value);
    if bare_words(text) == bare_words(&String::from_utf8_lossy(&again)) {
        Ok((value, again.len()))
    } else {
        Err(EditError::NotFaithful)
    }
}

/// Everything outside of strings (numbers, literals) and one marker per string, sorted.
fn bare_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c == '"' || c.is_ascii_alphanumeric() || c == '-') {
        rest = &rest[start..];
        let end = if rest.starts_with('"') {
            words.push("\"");
            text_end(rest)
        } else {
            let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
            let end = rest.find(is_end).unwrap_or(rest.len());
            words.push(&rest[..end]);
            end
        };
        rest = &rest[end..];
    }
    words.sort_unstable();
    words
}

fn summary(before: &Message, after: &Message) -> String {
    let (old, new) = (before.body.len(), after.body.len());
    let names = after.headers.keys().chain(before.headers.keys());
    let mut changed: Vec<_> =
        names.filter(|name| before.headers.get(*name) != after.headers.get(*name)).collect();
    changed.sort();
    changed.dedup();
    let headers = match changed.len() {
        0 => String::new(),
        count => format!(", {count} headers"),
    };
    format!("body {old} to {new} bytes{headers}, sha256 {}", hash(before, after))
}

/// A hash of both versions: anyone who has both can verify that this was the change.
fn hash(before: &Message, after: &Message) -> String {
    let mut hasher = Sha256::new();
    for message in [before, after] {
        let mut field = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        field(message.body.reveal());
        for (name, value) in &message.headers {
            field(name.as_bytes());
            field(value.reveal().as_bytes());
        }
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use bezoar_core::{MessageId, MessageType, millis};

    use super::*;

    const LIMIT: usize = 1_000;

    fn original() -> Message {
        let (id, message_type) =
            (MessageId::new("m-1").unwrap(), MessageType::new("lab.result").unwrap());
        let body = r#"{"patient": 7, "value": "CANARY"}"#;
        Message::new(id, message_type, millis(0), body).with_header("unit", "CANARY")
    }

    fn patch(text: &str) -> Edit {
        Edit { patch: Some(serde_json::from_str(text).unwrap()), ..Edit::default() }
    }

    #[test]
    fn a_body_a_patch_and_headers_change_what_they_name() {
        let edit = Edit {
            headers: vec![("unit".to_owned(), None), ("by".to_owned(), Some("hand".to_owned()))],
            ..patch(r#"[{"op": "replace", "path": "/patient", "value": 8}]"#)
        };
        let edited = edit.apply(&original(), LIMIT).unwrap();
        let body: serde_json::Value = serde_json::from_slice(edited.message.body.reveal()).unwrap();
        assert_eq!(body["patient"], 8);
        let names: Vec<_> = edited.message.headers.keys().collect();
        assert_eq!(names, ["by"]);
        assert_eq!(edited.message.id, original().id);
        assert!(edited.summary.contains("2 headers, sha256 "), "{}", edited.summary);
        assert!(!format!("{edited:?}").contains("CANARY"));
    }

    #[test]
    fn what_cannot_be_done_is_said_without_the_body() {
        let large = Edit { body: Some("x".repeat(2_000).into()), ..Edit::default() };
        let header =
            Edit { headers: vec![(String::new(), Some("x".to_owned()))], ..Edit::default() };
        let missing = patch(
            r#"[{"op": "test", "path": "/patient", "value": 7},
                                {"op": "remove", "path": "/nobody"}]"#,
        );
        for (edit, part) in [
            (Edit::default(), "changes nothing"),
            (large, "2000 bytes; at most 1000"),
            (missing, "operation 1 failed"),
            (header, "header"),
        ] {
            let error = edit.apply(&original(), LIMIT).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(!format!("{error:?} {error}").contains("CANARY"), "{error:?}");
        }
        let exact = original().with_body(r#"{"id": 12345678901234567890123, "a": 1}"#);
        let twice = original().with_body(r#"{"a": 1, "a": 2}"#);
        for odd in [exact, twice] {
            let error = patch(r#"[{"op": "remove", "path": "/a"}]"#).apply(&odd, LIMIT);
            assert_eq!(error.unwrap_err(), EditError::NotFaithful);
        }
        let copies: Vec<_> =
            (0..40).map(|n| format!(r#"{{"op": "copy", "from": "", "path": "/a{n}"}}"#)).collect();
        let bomb = patch(&format!("[{}]", copies.join(",")));
        assert!(matches!(bomb.apply(&original(), LIMIT), Err(EditError::TooLarge { .. })));
        let large = original().with_body(format!("[0{}]", ",0".repeat(VALUE_LIMIT / 2)));
        let copy = patch(
            r#"[{"op": "add", "path": "", "value": {"a": 1}}, {"op": "copy", "from": "/0", "path": "/-"}]"#,
        );
        let twice = patch(r#"[{"op": "copy", "from": "", "path": "/-"}]"#);
        assert_eq!(copy.apply(&large, usize::MAX / 16).unwrap_err(), EditError::Patch(1));
        let too_many = Err(EditError::TooManyValues(VALUE_LIMIT));
        assert_eq!(twice.apply(&large, usize::MAX / 16), too_many, "by copying");
        let larger = original().with_body(format!("[0{}]", ",0".repeat(VALUE_LIMIT)));
        assert_eq!(patch("[]").apply(&larger, usize::MAX / 16), too_many, "from the start");
        let text = original().with_body("no JSON");
        assert_eq!(patch("[]").apply(&text, LIMIT).unwrap_err(), EditError::NotJson);
    }
}
