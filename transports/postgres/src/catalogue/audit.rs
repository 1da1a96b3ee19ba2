//! The audit log: entries are chained by hashes, and written in the same transaction as the change they record.
//!
//! The head of the chain is a row that whoever appends locks until the commit. So there is one chain, however many
//! gateways write it. Appending comes last in a transaction, so that the lock is held for a short time and nobody who
//! holds it waits for another.

use bezoar_core::{
    catalogue::{AuditEntry, AuditHash, AuditHead, AuditedAction, PAGE_LIMIT},
    millis,
};
use sqlx::{Row, postgres::PgRow};

use super::session::{Session, number};

/// Writes an action to the log, in the transaction of the action.
pub(crate) async fn append(session: &mut Session<'_>, action: &AuditedAction) -> sqlx::Result<()> {
    let lock = session.query("SELECT count, hash FROM {schema}.audit_head FOR UPDATE");
    let head = head(session.optional(lock).await?.as_ref())?;
    let (entry, head) = head.append(session.now(), action);
    let insert = session
        .query(
            "WITH moved AS (
                 INSERT INTO {schema}.audit_head (count, hash) VALUES ($1, $8)
                 ON CONFLICT (only_row) DO UPDATE SET count = excluded.count, hash = excluded.hash
             )
             INSERT INTO {schema}.audit (number, at, who, address, verb, target, why, hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(entry.number.cast_signed())
        .bind(entry.at.as_millisecond())
        .bind(entry.actor)
        .bind(entry.address)
        .bind(entry.verb)
        .bind(entry.target)
        .bind(entry.reason)
        .bind(head.hash.0.to_vec());
    session.execute(insert).await.map(drop)
}

/// The head of the log. One that is missing or is no hash counts as none: verification then reports that the log does
/// not end there, and no further entry can be written.
fn head(row: Option<&PgRow>) -> sqlx::Result<AuditHead> {
    let Some(row) = row else { return Ok(AuditHead::START) };
    let hash = hash(row, 1)?;
    Ok(hash.map_or(AuditHead::START, |hash| AuditHead {
        count: row.try_get::<i64, _>(0).unwrap_or_default().max(0).unsigned_abs(),
        hash,
    }))
}

fn hash(row: &PgRow, column: usize) -> sqlx::Result<Option<AuditHash>> {
    let bytes: Vec<u8> = row.try_get(column)?;
    Ok(bytes.try_into().ok().map(AuditHash))
}

pub(crate) async fn read(
    session: &mut Session<'_>,
    (after, limit): (u64, u32),
) -> sqlx::Result<(Vec<AuditEntry>, AuditHead)> {
    let entries = session
        .query(
            "SELECT number, at, who, address, verb, target, why, hash
             FROM {schema}.audit WHERE number > $1 ORDER BY number LIMIT $2",
        )
        .bind(i64::try_from(after).unwrap_or(i64::MAX))
        .bind(i64::from(limit.clamp(1, PAGE_LIMIT)));
    let rows = session.all(entries).await?;
    let entries = rows.iter().map(entry).collect::<sqlx::Result<_>>()?;
    let kept = session.query("SELECT count, hash FROM {schema}.audit_head");
    let kept = head(session.optional(kept).await?.as_ref())?;
    Ok((entries, kept))
}

/// A hash that is none is shown as zeros. The entry then differs from what was written, which verification reports.
fn entry(row: &PgRow) -> sqlx::Result<AuditEntry> {
    Ok(AuditEntry {
        number: number(row, 0)?,
        at: millis(row.try_get(1)?),
        actor: row.try_get(2)?,
        address: row.try_get(3)?,
        verb: row.try_get(4)?,
        target: row.try_get(5)?,
        reason: row.try_get(6)?,
        hash: hash(row, 7)?.unwrap_or(AuditHash([0; 32])),
    })
}
