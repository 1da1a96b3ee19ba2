//! Maps errors of SQLite and of the file system to those of the contract.

use std::io;

use bezoar_core::{ErrorKind, QueueName, TransportError};
use rusqlite::{ErrorCode, ffi};

pub(crate) const TRANSPORT: &str = "sqlite";

pub(crate) fn error(kind: ErrorKind, operation: &'static str) -> TransportError {
    TransportError::new(kind, TRANSPORT, operation)
}

pub(crate) fn no_queue(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::QueueNotFound(queue.clone()), operation)
}

/// The only place that maps SQLite's errors.
pub(crate) fn from_sqlite(source: &rusqlite::Error, operation: &'static str) -> TransportError {
    let (kind, remedy) = match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            "another process holds the write lock; stop that process, or wait",
        ),
        Some(ErrorCode::DiskFull) => (ErrorKind::Full, NO_ROOM),
        Some(ErrorCode::SystemIoFailure) => io_failure(source),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            ErrorKind::Unusable,
            "the database or its folder is read-only; make both writable for this user",
        ),
        Some(ErrorCode::CannotOpen) => (
            ErrorKind::Unusable,
            "the database cannot be opened; its folder must be there and be writable",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            ErrorKind::Unusable,
            "the file is damaged, cannot be read, or is no database; leave it as it is, and restore a backup or use `sqlite3 FILE .recover`",
        ),
        _ => (ErrorKind::Other, "unexpected"),
    };
    error(kind, operation).with_source(format!("{remedy} ({source})"))
}

const NO_ROOM: &str =
    "the disk is full, over quota or failing; free some space and look at the system's log";

/// SQLite does not report why the system call failed, only which one it was. A failed write is treated as a lack
/// of space: a quota, a limit on file sizes, or a file system that reports a full disk in its own way.
fn io_failure(source: &rusqlite::Error) -> (ErrorKind, &'static str) {
    match source.sqlite_error().map(|error| error.extended_code) {
        Some(
            ffi::SQLITE_IOERR_READ
            | ffi::SQLITE_IOERR_SHORT_READ
            | ffi::SQLITE_IOERR_CORRUPTFS
            | ffi::SQLITE_IOERR_DATA,
        ) => (
            ErrorKind::Unusable,
            "the disk cannot read the database; look at the system's log, and restore a backup on another disk",
        ),
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => (
            ErrorKind::Unavailable,
            "the disk does not confirm what was written; look at the system's log",
        ),
        _ => (ErrorKind::Full, NO_ROOM),
    }
}

/// Maps an error of a file that this program reads or writes itself.
pub(crate) fn from_io(source: io::Error, operation: &'static str) -> TransportError {
    let kind = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ErrorKind::Full
        }
        _ => ErrorKind::Unavailable,
    };
    error(kind, operation).with_source(format!(
        "the write-ahead log cannot be made durable; look at the system's log ({source})"
    ))
}

/// Whether another connection holds a lock that was needed.
pub(crate) fn is_busy(source: &rusqlite::Error) -> bool {
    matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether a single job of a group may have caused this error, so that the others succeed without it. No job
/// causes a lock or a missing file, and a transaction that may have been committed must not be repeated.
pub(crate) fn may_be_caused_by_one_job(failed: &TransportError) -> bool {
    matches!(failed.kind, ErrorKind::Other | ErrorKind::Full)
}

/// Whether a commit that failed with this error may still be on disk. After a failed write it is not,
/// because the commit frame was not written completely.
pub(crate) fn may_be_committed(source: &rusqlite::Error) -> bool {
    let code = source.sqlite_error().map(|error| error.extended_code);
    breaks_the_connection(source) && code != Some(ffi::SQLITE_IOERR_WRITE)
}

/// Whether the connection must be reopened: after a failed write or sync, the state of the disk is
/// unknown.
pub(crate) fn breaks_the_connection(source: &rusqlite::Error) -> bool {
    matches!(
        source.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt)
    )
}
