//! Parses a batch: NDJSON lines, or a JSON array. Items are counted as they are parsed, so that a batch with too many
//! of them is refused before they fill the memory.

use std::fmt;

use bezoar::Outgoing;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Problem;
use crate::api_types::BatchItem;

/// The maximum number of messages in a batch.
const LIMIT: usize = 10_000;

/// The messages of a batch, in order; each is a message or says what is wrong with it.
pub(super) fn messages(
    headers: &HeaderMap,
    body: &Bytes,
    now: Timestamp,
) -> Result<Vec<Result<Outgoing, Problem>>, Problem> {
    let mut batch = Batch { body, now, messages: Vec::new(), is_full: false };
    let kind =
        headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.contains("ndjson") || kind.contains("jsonl") { batch.lines() } else { batch.array() }?;
    Ok(batch.messages)
}

struct Batch<'b> {
    body: &'b Bytes,
    now: Timestamp,
    messages: Vec<Result<Outgoing, Problem>>,
    /// Whether there was one more than the limit.
    is_full: bool,
}

impl<'b> Batch<'b> {
    fn lines(&mut self) -> Result<(), Problem> {
        let text = std::str::from_utf8(self.body)
            .map_err(|_| Problem::bad_request("the batch is not UTF-8"))?;
        let mut items = text.lines().filter(|line| !line.trim().is_empty());
        if items.all(|item| self.add(item)) { Ok(()) } else { Err(too_many()) }
    }

    fn array(&mut self) -> Result<(), Problem> {
        let mut reader = serde_json::Deserializer::from_slice(self.body);
        let read = self.deserialize(&mut reader).and_then(|()| reader.end());
        match read {
            Ok(()) => Ok(()),
            Err(_) if self.is_full => Err(too_many()),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let help =
                    "send an array of messages, or NDJSON with content-type application/x-ndjson";
                Err(Problem::bad_request(format!(
                    "the batch is not a JSON array (line {line}, column {column}); {help}"
                )))
            }
        }
    }

    /// Adds a message; `false` if it is one too many.
    fn add(&mut self, text: &'b str) -> bool {
        self.is_full = self.messages.len() == LIMIT;
        if !self.is_full {
            let message = item(text).and_then(|item| item.into_message(self.now));
            self.messages.push(message);
        }
        !self.is_full
    }
}

/// Parses an item. serde's message may quote a value, so only the position is reported.
fn item(text: &str) -> Result<BatchItem, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let known = "id, type, correlation_id, causation_id, content_type, delay, headers, body, body_base64";
        Problem::bad_request(format!("invalid message at column {}; known members: {known}", error.column()))
    })
}

fn too_many() -> Problem {
    let detail = format!("the batch has more than {LIMIT} messages");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-many", detail)
}

impl<'b> DeserializeSeed<'b> for &mut Batch<'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'b> Visitor<'b> for &mut Batch<'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&'b RawValue>()? {
            if !self.add(item.get()) {
                return Err(A::Error::custom("too many messages"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, text: String) -> Result<Vec<Result<Outgoing, Problem>>, Problem> {
        let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, kind.parse().unwrap())]);
        messages(&headers, &Bytes::from(text), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_batch_has_at_most_so_many_messages() {
        for (count, fits) in [(0, true), (1, true), (LIMIT, true), (LIMIT + 1, false)] {
            let item = "{\"body\":1}";
            let array = format!("[{}]", vec![item; count].join(","));
            for (kind, text) in
                [("application/json", array), ("ndjson", format!("{item}\n").repeat(count))]
            {
                match parse(kind, text) {
                    Ok(messages) => assert!(fits && messages.len() == count, "{kind}: {count}"),
                    Err(problem) => assert!(!fits && problem.code() == "too-many", "{problem:?}"),
                }
            }
        }
    }

    /// What comes after the limit is not even looked at.
    #[test]
    fn parsing_ends_at_the_limit() {
        for (kind, begin, item) in [("application/json", "[", "1,"), ("ndjson", "", "1\n")] {
            let text = format!("{begin}{}not JSON", item.repeat(LIMIT + 1));
            assert_eq!(parse(kind, text).unwrap_err().code(), "too-many", "{kind}");
        }
    }

    #[test]
    fn a_body_is_stored_as_it_was_written() {
        let headers = HeaderMap::new();
        let batch = Bytes::from_static(b"[{\"body\": {\"a\" :1} }]");
        let mut messages = messages(&headers, &batch, Timestamp::UNIX_EPOCH).unwrap();
        let message = messages.pop().unwrap().unwrap().message;
        assert_eq!(&message.body.reveal()[..], b"{\"a\" :1}");
    }
}
