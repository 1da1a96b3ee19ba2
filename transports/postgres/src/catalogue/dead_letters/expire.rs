//! Expires old dead letters.

use bezoar_core::catalogue::AuditedAction;
use sqlx::Row;

use super::edit::reopen_originals;
use crate::catalogue::{
    audit,
    causes::cause_changes,
    operations::{FREE, plan},
    session::Session,
};

/// Removes dead letters that arrived before a time, except those that an operation holds. Returns how many. A call that
/// removes none is not audited. Data that only belonged to older ones is removed too, at most `limit` of each kind:
/// causes without a note, stamps of imports, and operations that have ended.
pub(crate) async fn expire(
    session: &mut Session<'_>,
    (before, limit): (i64, u32),
    action: &AuditedAction,
) -> sqlx::Result<u32> {
    let removed = remove(session, before, limit).await?;
    forget(session, before, limit).await?;
    if removed > 0 {
        audit::append(session, action).await?;
    }
    Ok(removed)
}

/// Rows that somebody else has locked are left for the next time. Whether a row is free is asked again once it is
/// locked: an operation may have taken it in between.
async fn remove(session: &mut Session<'_>, before: i64, limit: u32) -> sqlx::Result<u32> {
    let lock = format!(
        "SELECT id FROM {{schema}}.dead AS d WHERE arrived_at < $1 AND {FREE}
         ORDER BY arrived_at, id LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    let lock = session.query(&lock).bind(before).bind(i64::from(limit));
    let rows = session.all(lock).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    let sql = format!(
        "DELETE FROM {{schema}}.dead AS d WHERE id = ANY ($1) AND {FREE} RETURNING {REMOVED}"
    );
    let delete = session.query(&sql).bind(ids);
    let rows = session.all(delete).await?;
    removed(session, &rows).await?;
    Ok(rows.len() as u32)
}

/// What [`removed`] needs to know about a dead letter that was deleted.
pub(crate) const REMOVED: &str = "d.id, d.seq, d.detailed, d.cause, d.bytes, d.edited_from";

/// Removes what belonged to dead letters that were deleted: their messages, their share of causes, and their place as a
/// version.
pub(crate) async fn removed(
    session: &mut Session<'_>,
    rows: &[sqlx::postgres::PgRow],
) -> sqlx::Result<()> {
    let (mut seqs, mut detailed, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let seq: i64 = row.try_get(1)?;
        seqs.push(seq);
        if row.try_get(2)? {
            detailed.push(seq);
        }
        session.causes.left(row.try_get(3)?, row.try_get::<i32, _>(4)?.into());
        if row.try_get::<Option<i64>, _>(5)?.is_some() {
            versions.push(row.try_get(0)?);
        }
    }
    let delete = session
        .query(
            "WITH without_ledger AS (DELETE FROM {schema}.ledgers WHERE seq = ANY ($2))
             DELETE FROM {schema}.messages WHERE seq = ANY ($1)",
        )
        .bind(seqs)
        .bind(detailed);
    session.execute(delete).await?;
    reopen_originals(session, versions).await
}

async fn forget(session: &mut Session<'_>, before: i64, limit: u32) -> sqlx::Result<()> {
    cause_changes::add_up(session).await?;
    for sql in [
        "DELETE FROM {schema}.causes WHERE id = ANY (ARRAY(
             SELECT id FROM {schema}.causes
             WHERE count = 0 AND last_seen < $1 AND state = 'open' AND note IS NULL LIMIT $2))",
        "DELETE FROM {schema}.stamps WHERE stamp = ANY (ARRAY(
             SELECT stamp FROM {schema}.stamps WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        "UPDATE {schema}.operations SET state = 'void' WHERE id = ANY (ARRAY(
             SELECT o.id FROM {schema}.operations AS o JOIN {schema}.operation_progress AS p ON p.id = o.id
             WHERE p.state IN ('cancelled', 'ended') AND p.ended_at < $1
               AND (p.task = 'discard' OR p.completed + p.failed >= p.done)
             LIMIT $2 FOR UPDATE OF o SKIP LOCKED))",
    ] {
        let forget = session.query(sql).bind(before).bind(i64::from(limit));
        session.execute(forget).await?;
    }
    plan::sweep_void(session, limit).await
}
