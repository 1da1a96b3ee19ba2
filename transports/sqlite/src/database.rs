//! Opening the file: settings, checks and migrations.

use std::{
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use bezoar_core::{ErrorKind, TransportError, millis};
use jiff::Timestamp;
use rusqlite::{
    Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior, config::DbConfig,
};

use crate::{
    Options, Synchronous,
    database_files::beside,
    error::{breaks_the_connection, error, from_io, from_sqlite, is_busy},
    platform::{create_private, sync_folder},
    wal,
};

/// One script per version, in order. A released one is never changed.
pub(crate) const MIGRATIONS: [&str; 10] = [
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
    include_str!("../migrations/0006.sql"),
    include_str!("../migrations/0007.sql"),
    include_str!("../migrations/0008.sql"),
    include_str!("../migrations/0009.sql"),
    include_str!("../migrations/0010.sql"),
];

const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// The oldest supported version of SQLite. Before it, a reset of the write-ahead log could corrupt
/// the database.
const OLDEST_SQLITE: i32 = 3_051_003;

/// The page size of a new database.
const PAGE_BYTES: i64 = 8_192;

/// Opens the file for writing, creating and migrating it as needed.
pub(crate) fn open(options: &Options) -> Result<Connection, TransportError> {
    options.check().map_err(|invalid| error(ErrorKind::Invalid(invalid), "open"))?;
    if rusqlite::version_number() < OLDEST_SQLITE {
        let found = format!("SQLite {} is too old, 3.51.3 is needed", rusqlite::version());
        return Err(error(ErrorKind::Unusable, "open").with_source(found));
    }
    create(&options.path).map_err(|source| cannot_open(&options.path, &source))?;
    let mut connection = connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(|source| from_sqlite(&source, "open"))?;
    if let Some(version) = prepare(&mut connection, &options.path)? {
        return Err(too_new(version));
    }
    let checkpointed = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    match checkpointed {
        Err(source) if breaks_the_connection(&source) => Err(from_sqlite(&source, "open")),
        _ => Ok(connection), // existing messages can be read even if the disk is full
    }
}

/// Makes the content of the log durable and migrates the schema. Both happen before anything is accepted and
/// while nobody else can write. `Some` is the version of a database that is newer than this program.
fn prepare(connection: &mut Connection, path: &Path) -> Result<Option<i64>, TransportError> {
    let refused = |source| from_sqlite(&source, "open");
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
    wal::make_durable(&beside(path, "-wal"))
        .and_then(|()| sync_folder(path))
        .map_err(|source| from_io(source, "open"))?;
    migrate(transaction).map_err(refused)
}

/// Opens the file for reading only.
pub(crate) fn open_reader(options: &Options) -> Result<Connection, TransportError> {
    // Opened for writing nevertheless, because a reader of a write-ahead log takes part in its
    // locks.
    connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| {
            connection.pragma_update(None, "cache_size", -4_096)?; // KiB; small, because there are several readers
            // Only the writer checkpoints, because it has checked that the log is what SQLite
            // wrote.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.pragma_update(None, "query_only", true).map(|()| connection)
        })
        .map_err(|source| from_sqlite(&source, "open"))
}

fn connect(options: &Options, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(&options.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    check_writable(&connection)?;
    // Only a new file takes it. SQLite's default of 4 KiB holds three messages of 1 KiB, and most of the time goes into
    // writing pages.
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    use_log(&connection, options.busy_timeout)?;
    connection.busy_timeout(options.busy_timeout)?;
    let synchronous = match options.synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -16_384)?; // KiB
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?; // the writer checkpoints after it has replied
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Switches to the write-ahead log. If several processes do so at once on a new file, SQLite refuses
/// all but one without waiting: each has a read lock, and none would release it. So this function
/// waits, and SQLite does not, because its timeout would start again with each try.
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

/// How many bytes of the file are in use. Deleted rows do not count, because their space is reused.
pub(crate) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (p.page_count - f.freelist_count) * s.page_size
               FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).map(i64::unsigned_abs)
}

/// Fails early if the file is read-only: SQLite would open it for reading, and only the first
/// message would fail. Called before anything is read, because reading creates a log that is as
/// read-only as the file.
fn check_writable(connection: &Connection) -> rusqlite::Result<()> {
    if connection.is_readonly(MAIN_DB)? {
        let read_only = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
        return Err(rusqlite::Error::SqliteFailure(read_only, None));
    }
    Ok(())
}

/// Creates an empty file that only its owner can read, and makes its name durable: SQLite syncs the
/// file but not its folder.
fn create(path: &Path) -> io::Result<()> {
    match create_private(path) {
        Ok(_) => sync_folder(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Brings the schema up to date; `Some` is the version of a database newer than this program.
fn migrate(transaction: Transaction<'_>) -> rusqlite::Result<Option<i64>> {
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
