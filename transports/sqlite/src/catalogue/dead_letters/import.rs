//! Imports dead letters from other stores.

use bezoar_core::{
    QueueName,
    catalogue::{AuditedAction, CatalogueError, DeadLetterRecord, DeadLetterState},
};
use rusqlite::{Connection, params};

use super::{
    arrival::{Arrival, Dying},
    edit::counts,
};
use crate::{
    catalogue::{Found, audit},
    row,
    session::Session,
};

/// Adds the dead letters whose stamp is new, and returns how many. A known stamp with other content is a conflict, and
/// nothing is imported. Creates missing queues, so that an export of one store can be imported into another.
pub(crate) fn import(
    session: &mut Session,
    connection: &Connection,
    records: &[(String, DeadLetterRecord)],
    action: &AuditedAction,
) -> Found<u64> {
    let mut added = 0;
    for (stamp, record) in records {
        let digest = record.message.body_digest().cast_signed();
        let is_new = connection
            .prepare_cached("INSERT INTO bezoar_stamps VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
            .execute(params![stamp, session.now_millis(), digest])?;
        if is_new == 1 {
            add(session, connection, record, action)?;
            added += 1;
        } else if is_other(connection, stamp, digest)? {
            let problem = format!(
                "another dead letter with the stamp {stamp:?} was imported before; nothing was imported"
            );
            return Ok(Err(CatalogueError::Conflict(problem)));
        }
    }
    audit::append(session, connection, action)?;
    Ok(Ok(added))
}

/// Whether a stamp is known with other content. Stamps of earlier versions have no digest.
fn is_other(connection: &Connection, stamp: &str, digest: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM bezoar_stamps WHERE stamp = ?1 AND digest <> ?2)",
        )?
        .query_row(params![stamp, digest], |row| row.get(0))
}

fn add(
    session: &mut Session,
    connection: &Connection,
    record: &DeadLetterRecord,
    action: &AuditedAction,
) -> rusqlite::Result<()> {
    let DeadLetterRecord { entry, message, reason, .. } = record;
    let queue = queue(session, connection, &entry.queue)?;
    let seq = row::insert_message(connection, message)?;
    row::insert_ledger(connection, seq, &message.ledger)?;
    let place = (&entry.queue, queue, seq);
    let dying = Dying {
        place,
        message,
        reason,
        counts: counts(message),
        tries: &[],
        died_at: Some(entry.died_at.as_millisecond()),
    };
    let (id, _) = session.insert_dead(connection, &dying, Arrival::Died)?;
    // A letter that could not be replayed there cannot be replayed here; one in an unknown state needs
    // approval.
    match entry.state {
        DeadLetterState::Edited => set_aside(connection, id, Some(0), None),
        DeadLetterState::Open | DeadLetterState::Held(_) => Ok(()),
        _ => set_aside(connection, id, None, Some(&action.actor)),
    }
}

fn set_aside(
    connection: &Connection,
    id: i64,
    edited_as: Option<i64>,
    unapproved_by: Option<&str>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE bezoar_dead SET edited_as = ?2, edited_by = ?3, unapproved = ?3 IS NOT NULL WHERE id = ?1",
        )?
        .execute(params![id, edited_as, unapproved_by])?;
    Ok(())
}

pub(crate) fn queue(
    session: &mut Session,
    connection: &Connection,
    name: &QueueName,
) -> rusqlite::Result<i64> {
    if let Some(queue) = session.queue(connection, name)? {
        return Ok(queue);
    }
    connection
        .prepare_cached("INSERT INTO bezoar_queues (name) VALUES (?1)")?
        .insert([name.as_str()])
}
