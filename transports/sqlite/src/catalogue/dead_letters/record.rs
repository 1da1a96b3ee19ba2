//! Everything about one dead letter.

use bezoar_core::{
    Code, DeadLetterId, Message, QueueName, Reason,
    catalogue::{CHAIN_LIMIT, CatalogueError, CauseId, DeadLetterRecord, ItemState, OperationId},
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::list::{entry, queue_name};
use crate::row;

/// Columns that include the body.
pub(crate) const BODY: &str = "m.body, m.checksum";
/// Columns without the body. Damage cannot be detected without it.
pub(crate) const NO_BODY: &str = "x'', NULL";

/// A dead letter with the values of its own rows.
pub(crate) struct Dead {
    pub(crate) queue: QueueName,
    pub(crate) queue_number: i64,
    pub(crate) seq: i64,
    pub(crate) message: Message,
    pub(crate) reason: Reason,
    pub(crate) died_at: i64,
    pub(crate) cause: Option<i64>,
}

pub(crate) fn dead_letter(
    connection: &Connection,
    id: i64,
    body: &'static str,
) -> rusqlite::Result<Option<Dead>> {
    let sql = format!(
        "SELECT d.seq, d.reason_code, d.reason, d.died_at, d.queue, q.name, d.cause,
                d.acquired, d.failed, d.released, d.replayed, d.history,
                m.id, m.type, m.correlation_id, m.causation_id, m.content_type, m.headers, m.time, {body},
                m.expires_at, m.ordering_key
         FROM bezoar_dead AS d
         JOIN bezoar_queues AS q ON q.id = d.queue
         JOIN bezoar_messages AS m ON m.seq = d.seq
         WHERE d.id = ?1"
    );
    let read = |row: &Row<'_>| {
        let code = Code::new(row.get::<_, String>(1)?).unwrap_or(Code::UNKNOWN);
        let seq = row.get(0)?;
        let (message, integrity) = row::message(connection, row, seq, 7, 12)?;
        Ok(Dead {
            queue: queue_name(row, 5)?,
            queue_number: row.get(4)?,
            seq,
            message,
            reason: integrity.reported_in(Reason::new(code, row.get::<_, String>(2)?)),
            died_at: row.get(3)?,
            cause: row.get(6)?,
        })
    };
    connection.prepare_cached(&sql)?.query_row([id], read).optional()
}

pub(crate) fn record(
    connection: &Connection,
    id: DeadLetterId,
    body: &'static str,
) -> rusqlite::Result<Result<DeadLetterRecord, CatalogueError>> {
    let (entry, dead) =
        (entry(connection, id.number())?, dead_letter(connection, id.number(), body)?);
    let (Some(entry), Some(mut dead)) = (entry, dead) else {
        return Ok(Err(gone(connection, id)?));
    };
    dead.message.ledger.replay = sent_by(connection, dead.seq, id.number())?;
    Ok(Ok(DeadLetterRecord {
        versions: versions(connection, id.number())?,
        earlier: earlier(connection, id.number())?,
        operations: operations(connection, dead.seq)?,
        entry,
        message: dead.message,
        reason: dead.reason,
    }))
}

/// Why a dead letter does not exist: it was replayed or discarded, or its id is unknown.
fn gone(connection: &Connection, id: DeadLetterId) -> rusqlite::Result<CatalogueError> {
    let processed = connection
        .prepare_cached(
            "SELECT operation, state, again, cause FROM bezoar_items
             WHERE dead = ?1 AND state IN ('in flight', 'completed', 'failed again', 'discarded')
             ORDER BY operation DESC LIMIT 1",
        )?
        .query_row([id.number()], |row| {
            let cause = row::text(row, 3)?.and_then(|cause| CauseId::new(cause).ok());
            let state = match (row::text(row, 1)?, row.get(2)?, cause) {
                (Some("failed again"), Some(again), Some(cause)) => {
                    ItemState::Failed { again: DeadLetterId::from_number(again), cause }
                }
                (Some("completed"), ..) => ItemState::Completed,
                (Some("discarded"), ..) => ItemState::Discarded,
                _ => ItemState::InFlight,
            };
            Ok((OperationId::from_number(row.get(0)?), state))
        })
        .optional()?;
    Ok(match processed {
        Some((operation, ItemState::Discarded)) => CatalogueError::Discarded { id, operation },
        Some((operation, state)) => CatalogueError::Replayed { id, operation, state },
        None => CatalogueError::NoDeadLetter(id),
    })
}

/// The earlier dead letters of the same message, each replayed and failed again, oldest first.
fn earlier(connection: &Connection, id: i64) -> rusqlite::Result<Vec<DeadLetterId>> {
    let mut select = connection.prepare_cached(
        "SELECT dead FROM bezoar_items WHERE again = ?1 ORDER BY operation DESC LIMIT 1",
    )?;
    let (mut found, mut next) = (Vec::new(), Some(id));
    while let Some(id) = next.filter(|_| found.len() < CHAIN_LIMIT) {
        next = select.query_row([id], |row| row.get(0)).optional()?;
        found.extend(next);
    }
    found.reverse();
    Ok(found.into_iter().map(DeadLetterId::from_number).collect())
}

/// The replay that sent the message of this dead letter.
fn sent_by(connection: &Connection, seq: i64, id: i64) -> rusqlite::Result<Option<OperationId>> {
    connection
        .prepare_cached("SELECT operation FROM bezoar_items WHERE seq = ?1 AND again = ?2")?
        .query_row([seq, id], |row| row.get(0).map(OperationId::from_number))
        .optional()
}

/// All versions of the same message except this one, the original first.
fn versions(connection: &Connection, id: i64) -> rusqlite::Result<Vec<DeadLetterId>> {
    let mut versions = follow(connection, "edited_from", id)?;
    versions.reverse();
    versions.extend(follow(connection, "edited_as", id)?);
    Ok(versions.into_iter().map(DeadLetterId::from_number).collect())
}

fn follow(connection: &Connection, column: &str, id: i64) -> rusqlite::Result<Vec<i64>> {
    let sql = format!("SELECT {column} FROM bezoar_dead WHERE id = ?1 AND {column} > 0");
    let mut select = connection.prepare_cached(&sql)?;
    let mut found = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next.filter(|_| found.len() < CHAIN_LIMIT) {
        next = select.query_row([id], |row| row.get(0)).optional()?;
        found.extend(next);
    }
    Ok(found)
}

/// The operations that a message was part of, latest last, including those under its earlier ids.
fn operations(connection: &Connection, seq: i64) -> rusqlite::Result<Vec<OperationId>> {
    let mut select = connection.prepare_cached(
        "SELECT i.operation, i.was FROM bezoar_items AS i JOIN bezoar_operations AS o ON o.id = i.operation
         WHERE i.seq = ?1 AND o.state NOT IN ('freezing', 'void') ORDER BY i.operation DESC",
    )?;
    let mut found = Vec::new();
    let mut next = Some(seq);
    while let Some(seq) = next.take().filter(|_| found.len() < CHAIN_LIMIT) {
        let mut rows = select.query([seq])?;
        while let Some(row) = rows.next()? {
            found.push(OperationId::from_number(row.get(0)?));
            next = next.or(row.get(1)?);
        }
    }
    found.reverse();
    Ok(found)
}
