//! Small settings that survive a restart, such as which routes are paused.

use bezoar_core::catalogue::AuditedAction;
use rusqlite::{Connection, OptionalExtension};

use super::audit;
use crate::session::Session;

pub(crate) fn setting(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM bezoar_settings WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// Changes a row of its own, so that there is something to write.
pub(crate) fn touch(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO bezoar_settings VALUES ('checked', hex(randomblob(8)))
             ON CONFLICT DO UPDATE SET value = excluded.value",
        )?
        .execute([])?;
    Ok(())
}

pub(crate) fn set(
    session: &Session,
    connection: &Connection,
    (name, value): (&str, Option<&str>),
    action: &AuditedAction,
) -> rusqlite::Result<()> {
    match value {
        Some(value) => connection
            .prepare_cached(
                "INSERT INTO bezoar_settings VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2",
            )?
            .execute([name, value])?,
        None => connection
            .prepare_cached("DELETE FROM bezoar_settings WHERE name = ?1")?
            .execute([name])?,
    };
    audit::append(session, connection, action)
}
