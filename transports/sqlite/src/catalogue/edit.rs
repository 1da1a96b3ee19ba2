//! Edited versions of dead letters.

use bezoar_core::{
    DeadLetterId, Message,
    catalogue::{Act, CatalogueError, Entry, EntryState},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    audit,
    dying::{Arrival, Dying, last_failure},
    list::entry,
    operations::Found,
    record,
};
use crate::{row, session::Session, settle::Counts};

/// What is edited, and how.
pub(super) struct Edit {
    pub(super) id: DeadLetterId,
    pub(super) message: Message,
    pub(super) needs_approval: bool,
}

/// Adds a version. The original waits until that is removed, if it ever is; so a message has one version at most that
/// can be replayed.
pub(super) fn edit(
    session: &mut Session,
    connection: &Connection,
    edit: &Edit,
    act: &Act,
) -> Found<Entry> {
    let id = edit.id;
    let found = (entry(connection, id.0)?, record::dead_letter(connection, id.0, record::NO_BODY)?);
    let (Some(before), Some(dead)) = found else {
        return Ok(Err(CatalogueError::NoDeadLetter(id)));
    };
    match before.state {
        EntryState::Taken(operation) => return Ok(Err(CatalogueError::Taken { id, operation })),
        EntryState::Edited => {
            let why = format!(
                "dead letter {id} was edited before; edit its latest version, or discard that"
            );
            return Ok(Err(CatalogueError::Conflict(why)));
        }
        EntryState::Open | EntryState::Unapproved => {}
    }
    let message = &edit.message;
    let seq = row::insert_message(connection, message)?;
    row::insert_ledger(connection, seq, &message.ledger)?;
    let dying = Dying {
        place: (&dead.queue, dead.queue_number, seq),
        message,
        reason: &dead.reason,
        counts: counts(message),
        last: last_failure(&message.ledger, &[], &dead.reason),
    };
    let (version, _) = session.insert_dead(connection, &dying, Arrival::Edited)?;
    connection
        .prepare_cached(
            "UPDATE bezoar_dead SET edited_from = ?2, edited_by = ?3, unapproved = ?4 WHERE id = ?1",
        )?
        .execute(params![version, id.0, act.who, edit.needs_approval])?;
    connection
        .prepare_cached("UPDATE bezoar_dead SET edited_as = ?2 WHERE id = ?1")?
        .execute([id.0, version])?;
    audit::append(session, connection, act)?;
    Ok(entry(connection, version)?.ok_or(CatalogueError::NoDeadLetter(id)))
}

/// The counters that a message brings with it.
pub(super) fn counts(message: &Message) -> Counts {
    let ledger = &message.ledger;
    Counts {
        acquired: ledger.acquired.into(),
        failed: ledger.failed.into(),
        released: ledger.released.into(),
        replayed: ledger.replayed.into(),
        history: row::has_details(ledger),
    }
}

pub(super) fn approve(
    session: &mut Session,
    connection: &Connection,
    id: DeadLetterId,
    act: &Act,
) -> Found<Entry> {
    let Some(before) = entry(connection, id.0)? else {
        return Ok(Err(CatalogueError::NoDeadLetter(id)));
    };
    let maker: Option<String> = connection
        .prepare_cached("SELECT edited_by FROM bezoar_dead WHERE id = ?1")?
        .query_row([id.0], |row| row.get(0))?;
    let why = match (before.state, maker) {
        (EntryState::Unapproved, Some(maker)) if maker == act.who => {
            Some(format!("dead letter {id} was edited by {maker}; somebody else must approve it"))
        }
        (EntryState::Unapproved, _) => None,
        (state, _) => {
            Some(format!("dead letter {id} is {} and waits for no approval", state.as_str()))
        }
    };
    if let Some(why) = why {
        return Ok(Err(CatalogueError::Conflict(why)));
    }
    connection
        .prepare_cached("UPDATE bezoar_dead SET unapproved = 0 WHERE id = ?1")?
        .execute([id.0])?;
    audit::append(session, connection, act)?;
    Ok(entry(connection, id.0)?.ok_or(CatalogueError::NoDeadLetter(id)))
}

/// A version that was replayed and died again is still the version of its original, under its new id.
pub(super) fn carry_on(connection: &Connection, before: i64, now: i64) -> rusqlite::Result<()> {
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

/// The original of a version that is removed for good can be worked with again.
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
