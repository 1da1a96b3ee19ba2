//! Detects that somebody deleted, replaced or truncated a file of the open database.
//!
//! SQLite keeps writing to a deleted file, which nobody can read. So each of the three files must stay the
//! one that was opened: `lab.db`, the write-ahead log `lab.db-wal` and its index `lab.db-shm`. While a
//! connection is open no program that uses SQLite removes any of them. A file that is changed in place keeps
//! its identity; for the log, `wal.rs` compares its content.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use bezoar_core::{ErrorKind, TransportError};

use crate::{
    error::error,
    platform::{FileIdentity, identity},
};

/// The files of an open database.
#[derive(Debug)]
pub struct DatabaseFiles {
    database: WatchedFile,
    pub(crate) log: WatchedFile,
    index: WatchedFile,
    /// How the log was changed in place. Only a restart clears this.
    damage: OnceLock<String>,
}

/// The size from which a log that cannot be checkpointed is reported. Larger than its normal size
/// (`journal_size_limit`).
pub(crate) const LOG_WARNING_BYTES: u64 = 128 * 1024 * 1024;

/// What to do about a log that cannot be checkpointed.
pub(crate) const BLOCKED_LOG: &str = "a long read transaction, probably of another program, keeps the \
    write-ahead log from being checkpointed, so it grows; end that transaction (`fuser FILE` lists the programs)";

impl DatabaseFiles {
    /// The files at `path` as they are now. To be called while a connection has them open.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            database: WatchedFile::at(path.to_owned())?,
            log: WatchedFile::at(beside(path, "-wal"))?,
            index: WatchedFile::at(beside(path, "-shm"))?,
            damage: OnceLock::new(),
        })
    }

    /// Checks that all of them are still the files that were opened.
    pub(crate) fn check(&self) -> Result<(), TransportError> {
        if let Some(problem) = self.damage.get() {
            return Err(unusable(problem.clone()));
        }
        match [&self.database, &self.index, &self.log].into_iter().find(|file| !file.is_in_place())
        {
            None => Ok(()),
            Some(gone) => Err(unusable(gone.what_to_do(&self.database))),
        }
    }

    /// Whether only the log is gone: its content can still be copied into the database.
    pub(crate) fn only_log_is_gone(&self) -> bool {
        self.database.is_in_place() && self.index.is_in_place() && !self.log.is_in_place()
    }

    /// How many bytes the database and its write-ahead log take on disk. Missing files are left out.
    pub fn sizes(&self) -> Vec<(&'static str, u64)> {
        let size = |(name, file): (&'static str, &WatchedFile)| Some((name, file.bytes()?));
        [("database", &self.database), ("log", &self.log)].into_iter().filter_map(size).collect()
    }

    /// The size of the log file, including the part that is not in use.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.bytes().unwrap_or(0)
    }

    /// Records that the log was changed in place: from now on every check fails.
    pub(crate) fn log_is_damaged(&self) -> TransportError {
        let (log, database) = (self.log.path.display(), self.database.path.display());
        let problem = format!(
            "{log} was truncated or overwritten while this program had it open; what was accepted since the \
             last checkpoint may be lost, and nothing more is accepted. Restart this program: it goes on with \
             what is in {database}. Compare with what was sent, or restore a backup"
        );
        unusable(self.damage.get_or_init(|| problem).clone())
    }
}

/// A file that must stay where it is.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    pub(crate) path: PathBuf,
    identity: FileIdentity,
}

impl WatchedFile {
    fn at(path: PathBuf) -> io::Result<Self> {
        let identity = identity(&fs::metadata(&path)?);
        Ok(Self { path, identity })
    }

    /// Looks the file up by name, because opening and closing it would release SQLite's locks on
    /// it.
    pub(crate) fn is_in_place(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| self.is(&found))
    }

    fn bytes(&self) -> Option<u64> {
        fs::metadata(&self.path).ok().map(|file| file.len())
    }

    pub(crate) fn is(&self, found: &fs::Metadata) -> bool {
        identity(found) == self.identity
    }

    fn what_to_do(&self, database: &Self) -> String {
        let file = self.path.display();
        let what = if self.path.exists() { "replaced" } else { "deleted" };
        if self.path == database.path {
            return format!(
                "{file} was {what} while this program had it open; put it back, or restart this program"
            );
        }
        let remove = match what {
            "replaced" => format!("delete {file} and "),
            _ => String::new(),
        };
        format!(
            "{file} was {what} while this program had it open, so nothing more is accepted. Stop this program \
             without killing it, so that it writes what it still holds to {}; then {remove}start it again",
            database.path.display()
        )
    }
}

/// The path of a file that SQLite keeps beside the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn unusable(problem: String) -> TransportError {
    error(ErrorKind::Unusable, "open").with_source(problem)
}
