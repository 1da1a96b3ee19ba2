//! Expires old dead letters.

use bezoar_core::catalogue::AuditedAction;
use rusqlite::{Connection, params};

use super::{edit::reopen_original, filter_bounds::first_since};
use crate::{
    catalogue::{
        audit,
        operations::{FREE, plan},
    },
    row,
    session::Session,
};

/// Removes dead letters that arrived before a time, except those that an operation holds. Returns how many. A call
/// that removes none is not audited. Data that only belonged to older ones is removed too, at most `limit` of each
/// kind: causes without a note, stamps of imports, and operations that have ended.
pub(crate) fn expire(
    session: &mut Session,
    connection: &Connection,
    (before, limit): (i64, u32),
    action: &AuditedAction,
) -> rusqlite::Result<u32> {
    let old = old(connection, before, limit)?;
    for dead in &old {
        remove(session, connection, dead)?;
    }
    if !old.is_empty() {
        audit::append(session, connection, action)?;
    }
    session.write_counts(connection)?;
    forget(connection, session.now_millis(), before, limit)?;
    Ok(old.len() as u32)
}

struct Old {
    id: i64,
    queue: i64,
    seq: i64,
    cause: Option<i64>,
    edited_from: Option<i64>,
}

fn old(connection: &Connection, before: i64, limit: u32) -> rusqlite::Result<Vec<Old>> {
    let sql = format!(
        "SELECT id, queue, seq, cause, edited_from FROM bezoar_dead
         WHERE id < ?1 AND at < ?2 AND {FREE} ORDER BY id LIMIT ?3"
    );
    connection
        .prepare_cached(&sql)?
        .query_map(params![first_since(connection, before)?, before, limit], |row| {
            Ok(Old {
                id: row.get(0)?,
                queue: row.get(1)?,
                seq: row.get(2)?,
                cause: row.get(3)?,
                edited_from: row.get(4)?,
            })
        })?
        .collect()
}

fn remove(session: &mut Session, connection: &Connection, old: &Old) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM bezoar_dead WHERE id = ?1")?.execute([old.id])?;
    session.left(old.queue, old.cause);
    reopen_original(connection, old.id, old.edited_from)?;
    row::delete_message(connection, old.seq, true)
}

fn forget(connection: &Connection, now: i64, before: i64, limit: u32) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM bezoar_causes WHERE number IN
         (SELECT number FROM bezoar_causes
          WHERE count = 0 AND last_seen < ?1 AND state = 'open' AND note IS NULL LIMIT ?2)",
        "DELETE FROM bezoar_stamps WHERE stamp IN
         (SELECT stamp FROM bezoar_stamps WHERE at < ?1 ORDER BY at LIMIT ?2)",
    ] {
        connection.prepare_cached(sql)?.execute(params![before, limit])?;
    }
    connection
        .prepare_cached(
            "UPDATE bezoar_operations SET state = 'void'
             WHERE state IN ('cancelled', 'ended') AND ended_at < ?1
               AND (task = 'discard' OR completed + failed >= done)",
        )?
        .execute([before])?;
    plan::sweep_void(connection, now, limit)
}
