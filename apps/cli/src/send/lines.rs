//! Reads the lines of an input in batches.

use std::io::{self, BufRead, BufReader, Read};

/// A batch ends at this many lines, or with the line that exceeds this many bytes.
const BATCH_LINES: usize = 1_000;
const BATCH_BYTES: usize = 256 * 1024;
/// The longest line, which is what a gateway accepts by default.
const LINE_LIMIT_BYTES: u64 = 16 * 1024 * 1024;

/// A line, which is the body of a message.
pub(super) struct InputLine {
    /// Its number in the input, from 1.
    pub(super) number: u64,
    pub(super) body: Vec<u8>,
}

/// Lines that are sent together.
#[derive(Default)]
pub(super) struct LineBatch {
    pub(super) lines: Vec<InputLine>,
    /// The numbers of lines that are too long to be sent.
    pub(super) too_long: Vec<u64>,
    /// Their size in the input.
    pub(super) bytes: u64,
}

/// Reads an input in batches.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    number: u64,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(BATCH_BYTES, input), number: 0 }
    }

    /// The next batch, `None` at the end. A batch ends where the input pauses, so that lines that are piped in one by
    /// one are sent at once; while requests are slow, input accumulates and batches grow.
    pub(super) fn next(&mut self) -> io::Result<Option<LineBatch>> {
        let (mut batch, mut held) = (LineBatch::default(), 0);
        while batch.lines.len() < BATCH_LINES && held < BATCH_BYTES {
            let mut body = Vec::new();
            let read = self.input.by_ref().take(LINE_LIMIT_BYTES).read_until(b'\n', &mut body)?;
            if read == 0 {
                break;
            }
            self.number += 1;
            batch.bytes += read as u64;
            if read as u64 == LINE_LIMIT_BYTES && body.last() != Some(&b'\n') {
                batch.bytes += self.skip_rest()?;
                batch.too_long.push(self.number);
            } else {
                held += read;
                batch.take(self.number, body);
            }
            if !self.input.buffer().contains(&b'\n') {
                break;
            }
        }
        Ok((batch.bytes > 0).then_some(batch))
    }

    /// Skips the rest of a line.
    fn skip_rest(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = self.input.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n').map(|place| place + 1);
            let length = end.unwrap_or(buffer.len());
            self.input.consume(length);
            skipped += length as u64;
            if end.is_some() || length == 0 {
                return Ok(skipped);
            }
        }
    }
}

impl LineBatch {
    /// The number of the last line.
    pub(super) fn last(&self) -> u64 {
        let last = self.lines.last().map(|line| line.number);
        last.max(self.too_long.last().copied()).unwrap_or_default()
    }

    /// Adds a line without its terminator; empty lines are skipped.
    fn take(&mut self, number: u64, mut body: Vec<u8>) {
        if body.last() == Some(&b'\n') {
            body.pop();
            if body.last() == Some(&b'\r') {
                body.pop();
            }
        }
        if !body.is_empty() {
            self.lines.push(InputLine { number, body });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn batches(input: impl Read) -> Vec<Vec<(u64, String)>> {
        let mut reader = LineReader::new(input);
        let next = || reader.next().unwrap();
        let text = |line: InputLine| (line.number, String::from_utf8(line.body).unwrap());
        std::iter::from_fn(next).map(|it| it.lines.into_iter().map(text).collect()).collect()
    }

    #[test]
    fn lines_keep_their_bytes_and_their_numbers() {
        let expected = [(1, "a ".to_owned()), (3, "b\r".to_owned()), (5, "c".to_owned())];
        assert_eq!(batches(&b"a \n\nb\r\r\n\r\nc"[..]).concat(), expected);
        assert!(batches(&b""[..]).is_empty());
    }

    #[test]
    fn a_batch_has_a_limit_of_lines_and_of_bytes() {
        let many = batches(Cursor::new("x\n".repeat(2_500)));
        assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        let large = batches(Cursor::new(format!("{}\n", "x".repeat(100_000)).repeat(5)));
        assert!(large.iter().all(|lines| lines.len() <= 3), "{:?}", large.len());
        assert_eq!(large.concat().len(), 5);
    }

    #[test]
    fn lines_piped_in_one_by_one_are_sent_at_once() {
        let slow = b"a\nb\n".chain(&b"c\nd"[..]).chain(&b"e\n"[..]);
        let sizes: Vec<_> = batches(slow).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_reported() {
        let long = "x".repeat(LINE_LIMIT_BYTES as usize + 7);
        let input = format!("a\n{long}\nb\n");
        let mut reader = LineReader::new(input.as_bytes());
        let all: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        let too_long: Vec<_> = all.iter().flat_map(|it| it.too_long.clone()).collect();
        let numbers: Vec<_> = all.iter().flat_map(|it| &it.lines).map(|line| line.number).collect();
        assert_eq!((too_long, numbers), (vec![2], vec![1, 3]));
        assert_eq!(all.iter().map(|it| it.bytes).sum::<u64>(), input.len() as u64);
    }
}
