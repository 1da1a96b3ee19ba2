//! Edited versions of dead letters.

use bezoar_core::{
    DeadLetterId, Message,
    catalogue::{AuditedAction, CatalogueError, DeadLetterSummary},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    arrival::{Arrival, Dying},
    list::entry,
    record,
};
use crate::{
    catalogue::{Found, audit},
    row,
    session::Session,
    settle::Counts,
};

/// An edit of a dead letter.
pub(crate) struct Edit {
    pub(crate) id: DeadLetterId,
    pub(crate) message: Message,
    pub(crate) needs_approval: bool,
}

/// Adds an edited version. The original cannot be replayed until the version is removed, so a message has at most one
/// version that can be replayed.
pub(crate) fn edit(
    session: &mut Session,
    connection: &Connection,
    edit: &Edit,
    action: &AuditedAction,
) -> Found<DeadLetterSummary> {
    let id = edit.id;
    let found = (
        entry(connection, id.number())?,
        record::dead_letter(connection, id.number(), record::NO_BODY)?,
    );
    let (Some(before), Some(dead)) = found else {
        return Ok(Err(CatalogueError::NoDeadLetter(id)));
    };
    if let Err(refused) = before.check_edit() {
        return Ok(Err(refused));
    }
    let message = &edit.message;
    let seq = row::insert_message(connection, message)?;
    row::insert_ledger(connection, seq, &message.ledger)?;
    let dying = Dying {
        place: (&dead.queue, dead.queue_number, seq),
        message,
        reason: &dead.reason,
        counts: counts(message),
        tries: &[],
        died_at: Some(dead.died_at),
    };
    let (version, _) = session.insert_dead(connection, &dying, Arrival::Edited)?;
    connection
        .prepare_cached(
            "UPDATE bezoar_dead SET edited_from = ?2, edited_by = ?3, unapproved = ?4 WHERE id = ?1",
        )?
        .execute(params![version, id.number(), action.actor, edit.needs_approval])?;
    connection
        .prepare_cached("UPDATE bezoar_dead SET edited_as = ?2 WHERE id = ?1")?
        .execute([id.number(), version])?;
    audit::append(session, connection, action)?;
    Ok(entry(connection, version)?.ok_or(CatalogueError::NoDeadLetter(id)))
}

/// The counters of a message's ledger.
pub(crate) fn counts(message: &Message) -> Counts {
    let ledger = &message.ledger;
    Counts {
        acquired: ledger.acquired.into(),
        failed: ledger.failed.into(),
        released: ledger.released.into(),
        replayed: ledger.replayed.into(),
        history: row::has_details(ledger),
    }
}

pub(crate) fn approve(
    session: &mut Session,
    connection: &Connection,
    id: DeadLetterId,
    action: &AuditedAction,
) -> Found<DeadLetterSummary> {
    let Some(before) = entry(connection, id.number())? else {
        return Ok(Err(CatalogueError::NoDeadLetter(id)));
    };
    let editor: Option<String> = connection
        .prepare_cached("SELECT edited_by FROM bezoar_dead WHERE id = ?1")?
        .query_row([id.number()], |row| row.get(0))?;
    if let Err(refused) = before.check_approval(&editor.unwrap_or_default(), &action.actor) {
        return Ok(Err(refused));
    }
    connection
        .prepare_cached("UPDATE bezoar_dead SET unapproved = 0 WHERE id = ?1")?
        .execute([id.number()])?;
    audit::append(session, connection, action)?;
    Ok(entry(connection, id.number())?.ok_or(CatalogueError::NoDeadLetter(id)))
}

/// Keeps the link between an original and its version, if the version was replayed and failed again
/// under a new id.
pub(crate) fn keep_version_link(
    connection: &Connection,
    before: i64,
    now: i64,
) -> rusqlite::Result<()> {
    let original: Option<i64> = connection
        .prepare_cached("UPDATE bezoar_dead SET edited_as = ?2 WHERE edited_as = ?1 RETURNING id")?
        .query_row([before, now], |row| row.get(0))
        .optional()?;
    if let Some(original) = original {
        connection
            .prepare_cached("UPDATE bezoar_dead SET edited_from = ?2 WHERE id = ?1")?
            .execute([now, original])?;
    }
    Ok(())
}

/// Reopens the original of a version that is discarded.
pub(crate) fn reopen_original(
    connection: &Connection,
    version: i64,
    original: Option<i64>,
) -> rusqlite::Result<()> {
    let Some(original) = original else { return Ok(()) };
    connection
        .prepare_cached("UPDATE bezoar_dead SET edited_as = NULL WHERE id = ?1 AND edited_as = ?2")?
        .execute([original, version])?;
    Ok(())
}
