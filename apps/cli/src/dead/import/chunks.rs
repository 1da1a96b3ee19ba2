//! Splits the input into chunks of whole lines that fit into a request.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bytes::Bytes;

use crate::humanize::count;

/// The size of a request, unless a single line is larger.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;
/// The longest line that a gateway accepts: a body of 16 MiB in base64, and its envelope.
const LINE_LIMIT_BYTES: usize = 24 * 1024 * 1024;

/// Lines that are sent together.
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    /// The first and last line number, from 1.
    first: u64,
    last: u64,
}

impl Chunk {
    /// The number in the input of a line of this chunk, from 1.
    pub(super) fn line(&self, place: u64) -> u64 {
        self.first + place - 1
    }

    /// `1–7`
    pub(super) fn lines(&self) -> String {
        format!("{}–{}", count(self.first), count(self.last))
    }
}

/// Reads an input in chunks.
pub(super) struct Chunks<R> {
    input: BufReader<R>,
    /// A line that was read and did not fit into the last chunk.
    held: Vec<u8>,
    /// How many lines were returned in chunks.
    number: u64,
}

impl<R: Read> Chunks<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(1 << 16, input), held: Vec::new(), number: 0 }
    }

    /// The next lines, `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        let first = self.number + 1;
        let mut bytes = Vec::new();
        loop {
            if self.held.is_empty() {
                self.read()?;
            }
            let is_full = !bytes.is_empty() && bytes.len() + self.held.len() > CHUNK_BYTES;
            if self.held.is_empty() || is_full {
                break;
            }
            bytes.append(&mut self.held);
            self.number += 1;
        }
        let chunk = Chunk { bytes: bytes.into(), first, last: self.number };
        Ok((self.number >= first).then_some(chunk))
    }

    fn read(&mut self) -> io::Result<()> {
        let most = LINE_LIMIT_BYTES as u64 + 1;
        self.input.by_ref().take(most).read_until(b'\n', &mut self.held)?;
        if self.held.len() > LINE_LIMIT_BYTES {
            let number = count(self.number + 1);
            let words = format!("line {number} is longer than {LINE_LIMIT_BYTES} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, words));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(input: &str) -> Vec<(usize, String)> {
        let mut chunks = Chunks::new(input.as_bytes());
        let next = || chunks.next().unwrap().map(|it| (it.bytes.len(), it.lines()));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn chunks_hold_whole_lines_up_to_a_limit() {
        let line = format!("{}\n", "x".repeat(3 * 1024 * 1024));
        let sizes = chunks(&line.repeat(5));
        let both = 2 * line.len();
        let expected = [(both, "1–2".into()), (both, "3–4".into()), (line.len(), "5–5".into())];
        assert_eq!(sizes, expected);
        let long = format!("a\n{}\nb", "x".repeat(CHUNK_BYTES));
        let lines: Vec<_> = chunks(&long).into_iter().map(|(_, lines)| lines).collect();
        assert_eq!(lines, ["1–1", "2–2", "3–3"]);
        assert!(chunks("").is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_with_its_number() {
        let input = format!("a\n{}", "x".repeat(LINE_LIMIT_BYTES + 1));
        let mut chunks = Chunks::new(input.as_bytes());
        let refused = chunks.next().err().unwrap().to_string();
        assert!(refused.starts_with("line 2 is longer than"), "{refused}");
    }
}
