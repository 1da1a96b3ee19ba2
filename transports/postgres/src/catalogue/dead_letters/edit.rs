//! Edited versions of dead letters.

use bezoar_core::{
    DeadLetterId, Message,
    catalogue::{AuditedAction, CatalogueError, DeadLetterSummary},
};

use super::{
    arrival::{self, Arrival},
    list::entry,
    record,
};
use crate::catalogue::{Found, audit, causes::cause_changes::How, session::Session};

/// An edit of a dead letter.
pub(crate) struct Edit {
    pub(crate) id: DeadLetterId,
    pub(crate) message: Message,
    pub(crate) needs_approval: bool,
}

/// Adds an edited version. The original cannot be replayed until the version is removed, so a message has at most one
/// version that can be replayed.
pub(crate) async fn edit(
    session: &mut Session<'_>,
    edit: &Edit,
    action: &AuditedAction,
) -> Found<DeadLetterSummary> {
    let id = edit.id;
    lock(session, id).await?;
    let before = entry(session, id.number()).await?;
    let dead = record::dead_letter(session, id.number(), record::NO_BODY).await?;
    let (Some(before), Some(dead)) = (before, dead) else {
        return Ok(Err(CatalogueError::NoDeadLetter(id)));
    };
    if let Err(refused) = before.check_edit() {
        return Ok(Err(refused));
    }
    let version = Arrival {
        queue: (&dead.queue, dead.queue_number),
        message: &edit.message,
        reason: &dead.reason,
        died_at: dead.died_at,
        how: How::Edited,
    };
    let inserted = arrival::insert(session, &[version]).await?;
    let Some(&(version, _)) = inserted.first() else { return Err(sqlx::Error::RowNotFound) };
    let link = session
        .query(
            "WITH original AS (UPDATE {schema}.dead SET edited_as = $2 WHERE id = $1)
             UPDATE {schema}.dead SET edited_from = $1, edited_by = $3, unapproved = $4 WHERE id = $2",
        )
        .bind(id.number())
        .bind(version)
        .bind(action.actor.clone())
        .bind(edit.needs_approval);
    session.execute(link).await?;
    audit::append(session, action).await?;
    Ok(entry(session, version).await?.ok_or(CatalogueError::NoDeadLetter(id)))
}

pub(crate) async fn approve(
    session: &mut Session<'_>,
    id: DeadLetterId,
    action: &AuditedAction,
) -> Found<DeadLetterSummary> {
    lock(session, id).await?;
    let before = entry(session, id.number()).await?;
    let dead = record::dead_letter(session, id.number(), record::NO_BODY).await?;
    let (Some(before), Some(dead)) = (before, dead) else {
        return Ok(Err(CatalogueError::NoDeadLetter(id)));
    };
    let editor = dead.edited_by.unwrap_or_default();
    if let Err(refused) = before.check_approval(&editor, &action.actor) {
        return Ok(Err(refused));
    }
    let approve = session.query("UPDATE {schema}.dead SET unapproved = false WHERE id = $1");
    session.execute(approve.bind(id.number())).await?;
    audit::append(session, action).await?;
    Ok(entry(session, id.number()).await?.ok_or(CatalogueError::NoDeadLetter(id)))
}

/// Keeps others from changing a dead letter. A statement of its own: what comes after it sees what they have changed.
async fn lock(session: &mut Session<'_>, id: DeadLetterId) -> sqlx::Result<()> {
    let lock = session.query("SELECT 1 FROM {schema}.dead WHERE id = $1 FOR UPDATE");
    session.optional(lock.bind(id.number())).await.map(drop)
}

/// Reopens the originals of versions that were removed.
pub(crate) async fn reopen_originals(
    session: &mut Session<'_>,
    versions: Vec<i64>,
) -> sqlx::Result<()> {
    if versions.is_empty() {
        return Ok(());
    }
    let reopen = session
        .query("UPDATE {schema}.dead SET edited_as = NULL WHERE edited_as = ANY ($1)")
        .bind(versions);
    session.execute(reopen).await.map(drop)
}
