//! Access to the database as another program has it.

use std::{
    path::Path,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::support::PATIENCE;

pub(crate) fn connection(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection
}

pub(crate) fn sql(path: &Path, statements: &str) {
    connection(path).execute_batch(statements).unwrap();
}

/// The page size of a new database.
pub(crate) const PAGE_BYTES: usize = 8_192;

pub(crate) fn one(path: &Path, query: &str) -> u64 {
    let number: i64 = connection(path).query_row(query, [], |row| row.get(0)).unwrap();
    u64::try_from(number).unwrap()
}

/// Waits until no process has the database open: the last one to close it removes the log.
pub(crate) fn wait_until_closed(path: &Path) {
    wait_until(|| {
        one(path, "SELECT count(*) FROM sqlite_schema"); // to be the last
        !has_log(path)
    });
}

/// Polls, because nothing signals what other processes do with a file.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "timed out");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn has_log(path: &Path) -> bool {
    path.with_extension("db-wal").exists()
}

/// Keeps all others from writing until it is dropped.
pub(crate) fn lock(path: &Path) -> Connection {
    let connection = connection(path);
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    connection
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
