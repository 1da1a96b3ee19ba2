//! Checks the write-ahead log as a file: whether it contains what SQLite wrote, and whether that is
//! on disk.
//!
//! The log is a header of 32 bytes and frames: 24 bytes, then a page. Header and frames carry the same two
//! salts; a log that begins again from its start gets new ones. After a power loss SQLite replays the frames
//! up to the first invalid one, so a missing frame loses all frames after it.
//!
//! [`LogWatch`] checks after every commit, before its jobs are answered, that the last frame is in the file
//! and that the previous last frame is still there. A log that was truncated or overwritten in place fails
//! that check. A normal checkpoint by any program passes the check: SQLite then reports no frames, or frames
//! with the salts of the new header.
//!
//! [`make_durable`] handles a sync that failed before the database was opened. The kernel then keeps pages that
//! are not on disk, marks them clean and never writes them; SQLite reads them and appends to them. Writing them
//! again marks them dirty, so that the next sync stores them.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    path::Path,
    thread,
    time::Duration,
};

use rusqlite::Connection;

use crate::{
    database_files::DatabaseFiles,
    error::is_busy,
    platform::{read_exact_at, write_all_at},
};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The first four bytes of every log, without the last bit, which is the byte order of the
/// checksums.
const MAGIC: u32 = 0x377f_0682;
/// How much is written back at a time.
const CHUNK_BYTES: usize = 1024 * 1024;
/// How often the log is checked again while other programs change it.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(1);

type Header = [u8; HEADER_BYTES];

/// The length of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogSize {
    /// How many frames are in use.
    pub(crate) frames: u32,
    /// How many of them are already in the database.
    pub(crate) checkpointed: u32,
    /// How many bytes the frames in use take.
    pub(crate) bytes: u64,
}

impl LogSize {
    fn new(frames: u32, checkpointed: u32, page_bytes: u64) -> Self {
        let bytes = u64::from(frames) * (page_bytes + FRAME_HEADER_BYTES as u64);
        Self { frames, checkpointed, bytes }
    }
}

/// The log that the writer's connection writes to.
#[derive(Debug)]
pub(crate) struct LogWatch {
    /// The open file, even if its name is removed. SQLite takes no locks on it, so closing it is safe.
    file: File,
    page_bytes: u64,
    last: Option<Mark>,
}

/// The end of the log at the last check.
struct Mark {
    header: Header,
    /// The number of the last frame.
    number: u32,
    /// The whole frame, because truncation removes the end of the last frame first.
    frame: Vec<u8>,
}

impl fmt::Debug for Mark {
    /// Without the frame, which contains message data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What is wrong with the log.
#[derive(Debug)]
pub(crate) enum LogProblem {
    /// The log is not what SQLite wrote.
    Damaged,
    /// SQLite could not report the length of the log.
    Unknown(rusqlite::Error),
}

impl LogWatch {
    /// Watches the log of an open database.
    pub(crate) fn start(files: &DatabaseFiles, connection: &Connection) -> io::Result<Self> {
        let file = File::open(&files.log.path)?;
        if !files.log.is(&file.metadata()?) {
            return Err(io::Error::other("the write-ahead log was replaced while it was opened"));
        }
        let page_bytes = connection
            .query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0))
            .map_err(io::Error::other)?
            .unsigned_abs();
        Ok(Self { file, page_bytes, last: None })
    }

    /// Whether the log is shorter than before: truncated by a checkpoint, or by another program.
    pub(crate) fn has_shrunk(&self) -> bool {
        let Some(mark) = &self.last else { return false };
        let end = self.offset(mark.number) + mark.frame.len() as u64;
        self.file.metadata().map_or(true, |file| file.len() < end)
    }

    /// Checks that everything SQLite has committed is in the file.
    pub(crate) fn check(&mut self, connection: &Connection) -> Result<LogSize, LogProblem> {
        let mut before = None;
        for _ in 0..LOOKS {
            let size = match size(connection, self.page_bytes) {
                Err(error) if is_busy(&error) => {
                    thread::sleep(PAUSE); // another process is rebuilding the index of the log
                    continue;
                }
                size => size.map_err(LogProblem::Unknown)?,
            };
            let seen = self.look(size.frames);
            if let Some(mark) = seen.filter(|mark| self.follows(mark)) {
                self.last = Some(mark);
                return Ok(size);
            }
            if size.frames == 0 {
                self.last = None; // the whole log is in the database
                return Ok(size);
            }
            // Another program may have checkpointed, truncated or restarted the log between the two reads.
            let looked = (size.frames, self.file.metadata().map(|file| file.len()).ok());
            if before.replace(looked) == Some(looked) {
                return Err(LogProblem::Damaged);
            }
        }
        Err(LogProblem::Damaged)
    }

    /// The header and a frame, if they belong together.
    fn look(&self, number: u32) -> Option<Mark> {
        if number == 0 {
            return None;
        }
        let mut header = [0; HEADER_BYTES];
        let mut frame = vec![0; FRAME_HEADER_BYTES + self.page_bytes as usize];
        read_exact_at(&self.file, &mut header, 0).ok()?;
        read_exact_at(&self.file, &mut frame, self.offset(number)).ok()?;
        let magic = u32::from_be_bytes(*header.first_chunk()?);
        let page_bytes = u32::from_be_bytes(*header[8..].first_chunk()?);
        let is_log = magic & !1 == MAGIC && u64::from(page_bytes) == self.page_bytes;
        let same_salts = header[16..24] == frame[8..16];
        (is_log && same_salts).then_some(Mark { header, number, frame })
    }

    /// Whether this can be the log after the one that was last checked.
    fn follows(&self, mark: &Mark) -> bool {
        match &self.last {
            Some(last) if last.header == mark.header => {
                let unchanged = |found: Mark| found.frame == last.frame;
                mark.number >= last.number && self.look(last.number).is_some_and(unchanged)
            }
            _ => true, // the log was restarted, and the salts of the frame show that SQLite did it
        }
    }

    fn offset(&self, frame: u32) -> u64 {
        HEADER_BYTES as u64
            + u64::from(frame.saturating_sub(1)) * (FRAME_HEADER_BYTES as u64 + self.page_bytes)
    }
}

/// The length of the log. Changes nothing and does not wait for locks.
fn size(connection: &Connection, page_bytes: u64) -> rusqlite::Result<LogSize> {
    run_checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)", page_bytes)
}

/// Copies the frames that no reader needs into the database, and syncs it.
pub(crate) fn checkpoint(connection: &Connection, watch: &LogWatch) -> rusqlite::Result<LogSize> {
    run_checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)", watch.page_bytes)
}

fn run_checkpoint(
    connection: &Connection,
    pragma: &str,
    page_bytes: u64,
) -> rusqlite::Result<LogSize> {
    connection.prepare_cached(pragma)?.query_row([], |row| {
        if row.get(0)? && row.get::<_, i64>(1)? < 0 {
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(busy, None)); // SQLite does not know the length of the log
        }
        let (frames, checkpointed): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(LogSize::new(frames.max(0) as u32, checkpointed.max(0) as u32, page_bytes))
    })
}

/// Writes the frames of the log again in place, and syncs them.
///
/// Only while nobody else can write. The bytes do not change, so readers, and recovery after a power loss
/// meanwhile, find the same log.
pub(crate) fn make_durable(log: &Path) -> io::Result<()> {
    let file = match OpenOptions::new().read(true).write(true).open(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let end = end_of_frames(&file)?;
    let mut chunk = vec![0; CHUNK_BYTES.min(end as usize)];
    let mut at = 0;
    while at < end {
        let length = chunk.len().min((end - at) as usize);
        read_exact_at(&file, &mut chunk[..length], at)?;
        write_all_at(&file, &chunk[..length], at)?;
        at += length as u64;
    }
    file.sync_data()
}

/// The end of the frames that SQLite may replay: before the first whose salts differ from the header.
fn end_of_frames(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut header = [0; HEADER_BYTES];
    if length < HEADER_BYTES as u64 {
        return Ok(length);
    }
    read_exact_at(file, &mut header, 0)?;
    let page_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let frame_bytes = u64::from(page_bytes) + FRAME_HEADER_BYTES as u64;
    let (mut end, mut frame) = (HEADER_BYTES as u64, [0; FRAME_HEADER_BYTES]);
    while end + frame_bytes <= length {
        read_exact_at(file, &mut frame, end)?;
        if frame[8..16] != header[16..24] {
            break;
        }
        end += frame_bytes;
    }
    Ok(end)
}
