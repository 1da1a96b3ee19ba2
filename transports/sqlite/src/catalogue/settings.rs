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
