//! Groups dead letters that have no cause yet, or one of an older rule.

use bezoar_core::catalogue::{FINGERPRINT_VERSION, Fingerprint};
use sqlx::Row;

use super::cause_changes::{Arrived, Group, How};
use crate::{
    catalogue::{
        dead_letters::record::{self, Dead},
        session::Session,
    },
    row::count,
};

/// Groups up to `limit` dead letters, and returns how many there were. Those that somebody else changes are left for
/// the next time.
pub(crate) async fn regroup(session: &mut Session<'_>, limit: u32) -> sqlx::Result<u32> {
    let ungrouped = session
        .query(
            "SELECT id FROM {schema}.dead WHERE cause IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED",
        )
        .bind(i64::from(limit));
    let rows = session.all(ungrouped).await?;
    let mut ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    let older = session
        .query(
            "SELECT d.id FROM {schema}.dead AS d
             WHERE d.cause IN (SELECT t.id FROM {schema}.cause_totals AS t WHERE t.version <> $1 AND t.count > 0)
             ORDER BY d.id LIMIT $2 FOR UPDATE OF d SKIP LOCKED",
        )
        .bind(FINGERPRINT_VERSION.cast_signed())
        .bind(i64::from(limit) - ids.len() as i64);
    for row in session.all(older).await? {
        ids.push(row.try_get(0)?);
    }
    for dead in record::dead_letters(session, ids.clone(), record::NO_BODY).await? {
        group(session, dead).await?;
    }
    Ok(ids.len() as u32)
}

async fn group(session: &mut Session<'_>, dead: Dead) -> sqlx::Result<()> {
    let print = Fingerprint::of(&dead.queue, &dead.message, &[], &dead.reason);
    let cause = print.cause(&session.key);
    let group = Group::of(dead.queue_number, &print);
    let update = session
        .query("UPDATE {schema}.dead SET cause = $2, kind = $3, code = $4 WHERE id = $1")
        .bind(dead.id)
        .bind(cause.as_str().to_owned())
        .bind(group.kind.clone())
        .bind(group.code.clone());
    session.execute(update).await?;
    let arrived = Arrived {
        died_at: dead.died_at,
        bytes: dead.bytes,
        attempts: count(dead.message.ledger.failed),
        how: How::Grouped,
    };
    session.causes.arrived(&cause, group, &arrived);
    session.causes.left(dead.cause, dead.bytes);
    Ok(())
}
