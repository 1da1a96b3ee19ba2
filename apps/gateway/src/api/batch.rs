//! Parses a batch: NDJSON lines, or a JSON array. Items and their headers are counted as they are parsed, so that a batch
//! with too many of them is refused before they fill the memory.

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
/// The memory that a header takes beside its text.
const HEADER_BYTES: usize = 128;

/// The messages of a batch, in order; each is a message or says what is wrong with it. `hold` gets the memory that their
/// headers take, which may be many times their share of the body, and fails if there is no room.
pub(super) fn messages(
    headers: &HeaderMap,
    body: &Bytes,
    now: Timestamp,
    hold: &mut Hold<'_>,
) -> Result<Vec<Result<Outgoing, Problem>>, Problem> {
    let mut batch = Batch { body, now, hold, messages: Vec::new(), refusal: None };
    let kind =
        headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.contains("ndjson") || kind.contains("jsonl") { batch.lines() } else { batch.array() }?;
    Ok(batch.messages)
}

type Hold<'h> = dyn FnMut(usize) -> Result<(), Problem> + 'h;

struct Batch<'b, 'h> {
    body: &'b Bytes,
    now: Timestamp,
    hold: &'h mut Hold<'h>,
    messages: Vec<Result<Outgoing, Problem>>,
    /// Why the whole batch is refused.
    refusal: Option<Problem>,
}

impl<'b> Batch<'b, '_> {
    fn lines(&mut self) -> Result<(), Problem> {
        let text = std::str::from_utf8(self.body)
            .map_err(|_| Problem::bad_request("the batch is not UTF-8"))?;
        let mut items = text.lines().filter(|line| !line.trim().is_empty());
        if items.all(|item| self.add(item)) { Ok(()) } else { Err(self.refused()) }
    }

    fn array(&mut self) -> Result<(), Problem> {
        let mut reader = serde_json::Deserializer::from_slice(self.body);
        let read = self.deserialize(&mut reader).and_then(|()| reader.end());
        match read {
            Ok(()) => Ok(()),
            Err(_) if self.refusal.is_some() => Err(self.refused()),
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

    /// Adds a message; `false` if the batch is refused.
    fn add(&mut self, text: &'b str) -> bool {
        self.refusal = self.try_add(text).err();
        self.refusal.is_none()
    }

    fn try_add(&mut self, text: &'b str) -> Result<(), Problem> {
        if self.messages.len() == LIMIT {
            return Err(too_many());
        }
        let message = item(text).and_then(|item| item.into_message(self.now));
        let headers = message.as_ref().map_or(0, |it| it.message.headers.len());
        if headers > 0 {
            (self.hold)(headers * HEADER_BYTES)?;
        }
        self.messages.push(message);
        Ok(())
    }

    fn refused(&mut self) -> Problem {
        self.refusal.take().unwrap_or_else(too_many)
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

impl<'b> DeserializeSeed<'b> for &mut Batch<'b, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'b> Visitor<'b> for &mut Batch<'b, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&'b RawValue>()? {
            if !self.add(item.get()) {
                return Err(A::Error::custom("the batch is refused"));
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
        messages(&headers, &Bytes::from(text), Timestamp::UNIX_EPOCH, &mut |_| Ok(()))
    }

    #[test]
    fn headers_hold_memory_and_a_batch_that_has_too_many_is_refused() {
        let item = |count: usize| {
            let headers: Vec<_> = (0..count).map(|n| format!("\"{n}\":\"\"")).collect();
            format!("{{\"headers\":{{{}}},\"body\":1}}", headers.join(","))
        };
        let batch = Bytes::from(format!("[{}]", vec![item(100); 5].join(",")));
        let mut held = 0;
        let mut hold = |bytes: usize| {
            held += bytes;
            if held > 400 * HEADER_BYTES { Err(super::super::body::busy()) } else { Ok(()) }
        };
        let refused = messages(&HeaderMap::new(), &batch, Timestamp::UNIX_EPOCH, &mut hold);
        assert_eq!((refused.unwrap_err().code(), held), ("busy", 500 * HEADER_BYTES));
        for (count, fits) in [(1_000, true), (1_001, false), (50_000, false)] {
            let parsed = parse("application/json", format!("[{}]", item(count))).unwrap();
            match &parsed[0] {
                Ok(_) => assert!(fits, "{count}"),
                Err(problem) => {
                    assert!(!fits && problem.detail().contains("at most 1000"), "{problem:?}")
                }
            }
        }
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
        let mut messages =
            messages(&headers, &batch, Timestamp::UNIX_EPOCH, &mut |_| Ok(())).unwrap();
        let message = messages.pop().unwrap().unwrap().message;
        assert_eq!(&message.body.reveal()[..], b"{\"a\" :1}");
    }
}
