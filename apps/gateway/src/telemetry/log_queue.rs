//! The queue between the log and stderr: logging never waits for whoever reads it.
//!
//! Lines are queued and a thread writes them, because stderr may be a pipe that nobody reads or a file on a full disk. A
//! line that finds the queue full is dropped and counted; so is one that cannot be written. Once the queue has drained,
//! the log says how many were dropped.

use std::{
    borrow::Cow,
    collections::VecDeque,
    io::{self, Write},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// How much may wait. Some 5,000 lines: minutes of a quiet log, a moment of a noisy one.
const LIMIT_BYTES: usize = 1 << 20;

/// A queue of lines for one output. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct LogQueue(Arc<QueueShared>);

#[derive(Debug, Default)]
struct QueueShared {
    state: Mutex<QueueState>,
    changed: Condvar,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Whether the thread is writing a line that it has taken.
    writing: bool,
    /// Lines dropped since the log last said so.
    unsaid: u64,
    /// Whether the last write failed. Saying so then would fail as well, again and again.
    failing: bool,
}

impl LogQueue {
    /// Starts a thread that writes to `output`. It is never joined: it may wait for a reader for ever.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Self(Arc::default());
        let writer = queue.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(output))?;
        Ok(queue)
    }

    /// Adds a line, or drops it if the queue is full.
    pub(super) fn push(&self, line: &[u8]) {
        let line = escaped(line);
        let mut state = self.lock();
        if state.bytes + line.len() > LIMIT_BYTES {
            self.drop_line(&mut state);
        } else {
            state.bytes += line.len();
            state.lines.push_back(line.into());
            self.0.changed.notify_all();
        }
    }

    /// The number of lines dropped so far.
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        self.0.dropped.clone()
    }

    /// Waits until everything is written, for at most `deadline`.
    pub(super) fn flush(&self, deadline: Duration) {
        let is_busy = |state: &mut QueueState| state.writing || !state.lines.is_empty();
        drop(self.0.changed.wait_timeout_while(self.lock(), deadline, is_busy));
    }

    fn run(self, mut output: impl Write) {
        loop {
            let line = self.next();
            let written = output.write_all(&line).and_then(|()| output.flush());
            let mut state = self.lock();
            state.writing = false;
            state.failing = written.is_err();
            if state.failing {
                self.drop_line(&mut state);
            }
            self.0.changed.notify_all();
        }
    }

    /// Waits for a line. When all are written, says how many were dropped.
    fn next(&self) -> Box<[u8]> {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.writing = true;
                return line;
            }
            let lines = std::mem::take(&mut state.unsaid);
            if lines > 0 && !state.failing {
                drop(state); // the warning is a line of this queue
                tracing::warn!(
                    lines,
                    "log lines were dropped: stderr was not read or not writable"
                );
                state = self.lock();
            } else {
                state.unsaid = lines;
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn drop_line(&self, state: &mut QueueState) {
        state.unsaid += 1;
        self.0.dropped.fetch_add(1, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every write is a line, as the log's layers write.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes bidirectional control characters, which could make a line read as another one. The escape is valid in JSON.
fn escaped(line: &[u8]) -> Cow<'_, [u8]> {
    let is_bidirectional = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match std::str::from_utf8(line) {
        Ok(text) if text.contains(is_bidirectional) => {
            let mut safe = String::with_capacity(text.len() + 16);
            for c in text.chars() {
                if is_bidirectional(c) {
                    safe.push_str(&format!("\\u{:04x}", u32::from(c)));
                } else {
                    safe.push(c);
                }
            }
            safe.into_bytes().into()
        }
        _ => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// An output that says when it is written to, and waits until it may go on; an error if it may not.
    struct Gated {
        reached: mpsc::Sender<Vec<u8>>,
        go: mpsc::Receiver<bool>,
    }

    impl Write for Gated {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.reached.send(line.to_vec());
            match self.go.recv() {
                Ok(true) => Ok(line.len()),
                _ => Err(io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (LogQueue, mpsc::Receiver<Vec<u8>>, mpsc::Sender<bool>) {
        let ((reached, seen), (open, go)) = (mpsc::channel(), mpsc::channel());
        (LogQueue::start(Gated { reached, go }).unwrap(), seen, open)
    }

    #[test]
    fn a_reader_that_stalls_costs_lines_and_not_time() {
        let (queue, seen, open) = gated();
        queue.push(b"first\n");
        assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), b"first\n");
        let line = [b'x'; 1024];
        (0..LIMIT_BYTES / line.len() + 5).for_each(|_| queue.push(&line));
        assert_eq!(queue.dropped().load(Relaxed), 5);
        queue.flush(Duration::ZERO); // does not wait for the reader either
        drop(open);
    }

    #[test]
    fn a_disk_that_is_full_is_not_written_to_over_and_over() {
        let (queue, seen, open) = gated();
        queue.push(b"lost\n");
        open.send(false).unwrap();
        assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), b"lost\n");
        queue.flush(PATIENCE);
        assert_eq!(queue.dropped().load(Relaxed), 1);
        queue.push(b"kept\n");
        open.send(true).unwrap();
        assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), b"kept\n", "nothing in between");
        queue.flush(PATIENCE);
        assert_eq!(queue.dropped().load(Relaxed), 1);
    }

    #[test]
    fn bidirectional_control_characters_are_escaped() {
        let check = |line: &str, wanted: &str| {
            assert_eq!(std::str::from_utf8(&escaped(line.as_bytes())).unwrap(), wanted);
        };
        check("größe → µs", "größe → µs");
        check("a\u{202e}b\u{2066}\u{61c}", "a\\u202eb\\u2066\\u061c");
        assert_eq!(&*escaped(&[0xff, 0xfe]), [0xff, 0xfe]);
    }
}
