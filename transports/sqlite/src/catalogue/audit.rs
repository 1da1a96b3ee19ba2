//! The audit log: entries are chained by hashes, and written in the same transaction as the change
//! they record.

use bezoar_core::{
    catalogue::{AuditEntry, AuditHash, AuditHead, AuditedAction, PAGE_LIMIT},
    millis,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{row, session::Session};

/// Writes an action to the log, in the transaction of the action.
pub(crate) fn append(
    session: &Session,
    connection: &Connection,
    action: &AuditedAction,
) -> rusqlite::Result<()> {
    let (entry, head) = head(connection)?.append(session.now(), action);
    connection
        .prepare_cached("INSERT INTO bezoar_audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            entry.number as i64,
            entry.at.as_millisecond(),
            entry.actor,
            entry.address,
            entry.verb,
            entry.target,
            entry.reason,
            entry.hash.0,
        ])?;
    let kept = [&head.count.to_be_bytes()[..], &head.hash.0].concat();
    connection
        .prepare_cached(
            "INSERT INTO bezoar_meta VALUES ('audit', ?1) ON CONFLICT DO UPDATE SET value = ?1",
        )?
        .execute([kept])?;
    Ok(())
}

/// The head of the log, which is stored separately: the count in eight bytes, then the hash. A corrupted head counts
/// as none: verification then reports that the log does not end there, and no further entry can be written.
fn head(connection: &Connection) -> rusqlite::Result<AuditHead> {
    let kept: Option<Option<[u8; 40]>> = connection
        .prepare_cached("SELECT value FROM bezoar_meta WHERE name = 'audit'")?
        .query_row([], |row| Ok(row.get(0).ok()))
        .optional()?;
    let Some(kept) = kept.flatten() else { return Ok(AuditHead::START) };
    let (mut count, mut hash) = ([0; 8], [0; 32]);
    count.copy_from_slice(&kept[..8]);
    hash.copy_from_slice(&kept[8..]);
    Ok(AuditHead { count: u64::from_be_bytes(count), hash: AuditHash(hash) })
}

pub(crate) fn read(
    connection: &Connection,
    after: u64,
    limit: u32,
) -> rusqlite::Result<(Vec<AuditEntry>, AuditHead)> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let entries = connection
        .prepare_cached(
            "SELECT number, at, who, \"from\", verb, target, why, hash
             FROM bezoar_audit WHERE number > ?1 ORDER BY number LIMIT ?2",
        )?
        .query_map(params![after, limit.clamp(1, PAGE_LIMIT)], entry)?
        .collect::<rusqlite::Result<_>>()?;
    Ok((entries, head(connection)?))
}

/// A value that is not a text or not a hash is shown as empty. The entry then differs from what was
/// written, which verification reports.
fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let text = |column| row::text(row, column).map(|it| it.unwrap_or_default().to_owned());
    Ok(AuditEntry {
        number: row.get::<_, i64>(0)?.unsigned_abs(),
        at: millis(row.get(1)?),
        actor: text(2)?,
        address: text(3)?,
        verb: text(4)?,
        target: text(5)?,
        reason: text(6)?,
        hash: AuditHash(row.get(7).unwrap_or_default()),
    })
}
