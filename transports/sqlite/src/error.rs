//! What SQLite says, as the contract says it.

use bezoar_core::{ErrorKind, QueueName, TransportError};
use rusqlite::ErrorCode;

pub(crate) const TRANSPORT: &str = "sqlite";

pub(crate) fn error(kind: ErrorKind, operation: &'static str) -> TransportError {
    TransportError::new(kind, TRANSPORT, operation)
}

pub(crate) fn no_queue(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::QueueNotFound(queue.clone()), operation)
}

/// The one place where SQLite's errors get their meaning.
pub(crate) fn from_sqlite(source: &rusqlite::Error, operation: &'static str) -> TransportError {
    let (kind, remedy) = match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, "another process keeps the database locked; end it, or wait")
        }
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => (
            ErrorKind::Full,
            "the disk is full or failing; free some space and look at the system's log",
        ),
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
            "the file is damaged or no database; leave it as it is, and restore a backup or use `sqlite3 FILE .recover`",
        ),
        _ => (ErrorKind::Other, "unexpected"),
    };
    error(kind, operation).with_source(format!("{remedy} ({source})"))
}

/// Whether another connection is in the way, whatever it was that was tried.
pub(crate) fn is_busy(source: &rusqlite::Error) -> bool {
    matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether it may be the fault of one of several that were done together, and the others could be done
/// without it. A lock or a lost file is nobody's, and what may have been done must not be done again.
pub(crate) fn may_be_of_one(failed: &TransportError) -> bool {
    matches!(failed.kind, ErrorKind::Other | ErrorKind::Full)
}

/// Whether the connection is to be trusted no more: after a failed write or sync nobody knows what is on disk.
pub(crate) fn breaks_the_connection(source: &rusqlite::Error) -> bool {
    matches!(
        source.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt)
    )
}
