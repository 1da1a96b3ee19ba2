//! The size of JSON when it is written, and how deep it nests.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

/// The value as it is written to a body.
pub(super) fn written(value: &Value) -> Vec<u8> {
    let written = serde_json::to_vec(value).expect("names are text and memory does not fail");
    #[cfg(test)]
    meter::add(written.len());
    written
}

/// How many bytes the value has when it is written.
pub(super) fn size(value: &Value) -> usize {
    count(value)
}

/// How many bytes a text has when it is written, with its quotes and escapes.
pub(super) fn text_size(text: &str) -> usize {
    count(text)
}

/// How many values the JSON text has, itself included; counted without reading it into memory.
pub(super) fn values_in(text: &str) -> usize {
    let (mut count, mut rest) = (1, text);
    while let Some(start) = rest.find(['"', '[', '{', ',']) {
        rest = &rest[start..];
        let end = if rest.starts_with('"') { text_end(rest) } else { 1 };
        count += usize::from(!rest.starts_with('"'));
        rest = &rest[end..];
    }
    count
}

/// The end of a quoted string.
pub(super) fn text_end(text: &str) -> usize {
    let mut escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// How many values the value has, itself included.
pub(super) fn values(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(values).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

/// How deep the value nests: 0 for text, numbers and literals.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn count<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("names are text and counting does not fail");
    #[cfg(test)]
    meter::add(counter.0);
    counter.0
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what a test makes this thread write or measure.
#[cfg(test)]
pub(super) mod meter {
    use std::cell::Cell;

    thread_local!(static BYTES: Cell<usize> = const { Cell::new(0) });

    pub(in crate::edit) fn add(bytes: usize) {
        BYTES.set(BYTES.get() + bytes);
    }

    /// The bytes since the last call.
    pub(in crate::edit) fn take() -> usize {
        BYTES.take()
    }
}
