//! Opening the file: settings, checks and migrations.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use bezoar_core::{ErrorKind, TransportError, millis};
use jiff::Timestamp;
use rusqlite::{Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use crate::{
    Options, Synchronous,
    error::{error, from_sqlite, is_busy},
};

/// One script per version, in order. A released one is never changed.
const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
];

const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Before this version a reset of the write-ahead log could corrupt the database.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Opens the file for writing, creating and migrating it as needed.
pub(crate) fn open(options: &Options) -> Result<Connection, TransportError> {
    options.check().map_err(|invalid| error(ErrorKind::Invalid(invalid), "open"))?;
    if rusqlite::version_number() < OLDEST_SQLITE {
        let found = format!("SQLite {} is too old, 3.51.3 is needed", rusqlite::version());
        return Err(error(ErrorKind::Unusable, "open").with_source(found));
    }
    create(&options.path).map_err(|source| cannot_open(&options.path, &source))?;
    connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|mut connection| migrate(&mut connection).map(|newer| (connection, newer)))
        .map_err(|source| from_sqlite(&source, "open"))
        .and_then(|(connection, newer)| match newer {
            None => Ok(connection),
            Some(version) => Err(too_new(version)),
        })
}

/// Opens the file for reading only.
pub(crate) fn open_reader(options: &Options) -> Result<Connection, TransportError> {
    // Opened for writing all the same: a reader of a write-ahead log takes part in its locks.
    connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| {
            connection.pragma_update(None, "cache_size", -4_096)?; // KiB; there are several
            connection.pragma_update(None, "query_only", true).map(|()| connection)
        })
        .map_err(|source| from_sqlite(&source, "open"))
}

fn connect(options: &Options, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(&options.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    check_writable(&connection)?;
    use_log(&connection, options.busy_timeout)?;
    connection.busy_timeout(options.busy_timeout)?;
    let synchronous = match options.synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -16_384)?; // KiB
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Switches to the write-ahead log. Of several that do so at once on a new file SQLite refuses all but
/// one without waiting: each has begun to read, and none would let go. So the waiting is done here, and
/// here only: SQLite's own would begin anew with each try.
fn use_log(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    const PAUSE: Duration = Duration::from_millis(5);
    connection.busy_timeout(Duration::ZERO)?;
    let start = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error) if is_busy(&error) && start.elapsed() < patience => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

/// The latest time that the database has seen.
pub(crate) fn latest_time(connection: &Connection) -> Result<Timestamp, TransportError> {
    connection
        .query_row("SELECT coalesce(max(clock), 0) FROM bezoar_queues", [], |row| row.get(0))
        .map(millis)
        .map_err(|source| from_sqlite(&source, "open"))
}

/// How much of the file holds something. What was deleted is used again, and does not count.
pub(crate) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (p.page_count - f.freelist_count) * s.page_size
               FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).map(i64::unsigned_abs)
}

/// SQLite opens a file that it may not write for reading, and so would we, until the first message.
/// Asked before anything is read: reading leaves a log behind that is as read-only as the file.
fn check_writable(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_readonly(MAIN_DB)? {
        let read_only = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
        return Err(rusqlite::Error::SqliteFailure(read_only, None));
    }
    Ok(())
}

/// Which file this is, whatever its name. SQLite goes on writing into a deleted one, for nobody to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of the file that is now at `path`.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }

    /// Whether the file at `path` is still this one. Another would have other numbers for its queues.
    pub(crate) fn check(self, path: &Path) -> Result<(), TransportError> {
        if Self::of(path).is_ok_and(|found| found == self) {
            return Ok(());
        }
        let text = format!(
            "{} was deleted or exchanged under this program; put it back, or restart",
            path.display()
        );
        Err(error(ErrorKind::Unusable, "open").with_source(text))
    }
}

/// Makes an empty file that only its owner can read, and makes its name durable: SQLite syncs the file
/// and not the folder that it is in.
fn create(path: &Path) -> io::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(_) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            OpenOptions::new().read(true).open(parent.unwrap_or(Path::new(".")))?.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Brings the schema up to date; `Some` is the version of a database newer than this program.
fn migrate(connection: &mut Connection) -> rusqlite::Result<Option<i64>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS bezoar_meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID",
    )?;
    let version = version(&transaction)?;
    if !(0..=SCHEMA).contains(&version) {
        return Ok(Some(version));
    }
    for script in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(script)?;
    }
    let set = "INSERT INTO bezoar_meta VALUES ('schema', ?1) ON CONFLICT DO UPDATE SET value = ?1";
    if version < SCHEMA {
        transaction.execute(set, [SCHEMA])?;
    }
    transaction.commit()?;
    Ok(None)
}

fn version(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    let mut found = transaction.prepare("SELECT value FROM bezoar_meta WHERE name = 'schema'")?;
    let version = found.query_map([], |row| row.get(0))?.next();
    version.unwrap_or(Ok(0))
}

fn too_new(version: i64) -> TransportError {
    let text = format!(
        "the database has schema {version} and this program knows up to {SCHEMA}; use the newer program"
    );
    error(ErrorKind::Unusable, "open").with_source(text)
}

pub(crate) fn cannot_open(path: &Path, source: &io::Error) -> TransportError {
    let text = format!(
        "cannot create {} ({source}); its folder must be there and be writable",
        path.display()
    );
    error(ErrorKind::Unusable, "open").with_source(text)
}
