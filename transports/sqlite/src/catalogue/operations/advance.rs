//! Carries out the next step of an operation.

use bezoar_core::{
    MessageId, QueueName,
    catalogue::{
        Advance, NextStep, Operation, OperationId, OperationKind, OperationState, ReplayIds,
    },
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    catalogue::{Found, dead_letters::edit, operations},
    row,
    session::Session,
};

/// The maximum number of dead letters in one transaction.
const PIECE_LIMIT: u64 = 10_000;
/// A step ends after this many bytes of copied bodies.
const COPY_LIMIT_BYTES: i64 = 64 * 1024 * 1024;

/// Carries out the next step of a running operation, as far as its progress allows. If it is not running,
/// nothing is done; the returned state says so.
pub(crate) fn advance(
    session: &mut Session,
    connection: &Connection,
    id: OperationId,
    most: u32,
) -> Found<Advance> {
    let before = match operations::operation(connection, id)? {
        Ok(operation) => operation,
        Err(refused) => return Ok(Err(refused)),
    };
    let allowed = match (before.state, before.next()) {
        (OperationState::Running, NextStep::Go(allowed)) => {
            allowed.min(most.into()).min(PIECE_LIMIT)
        }
        _ => 0,
    };
    let done = do_next(session, connection, &before, allowed)?;
    session.write_counts(connection)?;
    operations::end_if_done(connection, id.number(), session.now_millis())?;
    let after = operations::operation(connection, id)?;
    Ok(after.map(|operation| Advance { done, operation }))
}

/// A waiting item and its dead letter, unless somebody removed the dead letter by hand.
struct Turn {
    place: i64,
    dead: i64,
    row: Option<Dead>,
}

struct Dead {
    seq: i64,
    queue: i64,
    replayed: i64,
    history: i64,
    cause: Option<i64>,
    edited_from: Option<i64>,
}

fn do_next(
    session: &mut Session,
    connection: &Connection,
    operation: &Operation,
    allowed: u64,
) -> rusqlite::Result<u32> {
    let id = operation.id.number();
    let (mut done, mut gone, mut copied_bytes, mut last) = (0_i64, 0_i64, 0, None);
    for (place, dead) in waiting(connection, id, allowed)? {
        if copied_bytes > COPY_LIMIT_BYTES {
            break;
        }
        let turn = Turn { place, dead, row: take(connection, id, dead)? };
        last = Some(place);
        let Some(row) = &turn.row else {
            set_state(connection, id, place, "left")?;
            gone += 1;
            continue;
        };
        session.left(row.queue, row.cause);
        match operation.kind {
            OperationKind::Discard => discard(connection, id, &turn, row)?,
            OperationKind::Replay { ids: ReplayIds::Same, .. } => {
                send(session, connection, id, place, row, row.seq)?;
            }
            OperationKind::Replay { ids: ReplayIds::New, .. } => {
                let (seq, bytes) = copy(session, connection, row.seq)?;
                copied_bytes += bytes;
                send(session, connection, id, place, row, seq)?;
            }
        }
        done += 1;
    }
    if let Some(place) = last {
        connection
            .prepare_cached(
                "UPDATE bezoar_operations
                 SET done = done + ?2, total = total - ?3, refused = refused + ?3, place = ?4 WHERE id = ?1",
            )?
            .execute([id, done, gone, place])?;
    }
    Ok(done as u32)
}

fn waiting(
    connection: &Connection,
    operation: i64,
    limit: u64,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    connection
        .prepare_cached(
            "SELECT place, dead FROM bezoar_items
             WHERE operation = ?1 AND place > (SELECT place FROM bezoar_operations WHERE id = ?1)
             ORDER BY place LIMIT ?2",
        )?
        .query_map([operation, limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Deletes a dead letter of the operation from its table.
fn take(connection: &Connection, operation: i64, dead: i64) -> rusqlite::Result<Option<Dead>> {
    connection
        .prepare_cached(
            "DELETE FROM bezoar_dead WHERE id = ?1 AND operation = ?2
             RETURNING seq, queue, replayed, history, cause, edited_from",
        )?
        .query_row([dead, operation], |row| {
            Ok(Dead {
                seq: row.get(0)?,
                queue: row.get(1)?,
                replayed: row.get(2)?,
                history: row.get(3)?,
                cause: row.get(4)?,
                edited_from: row.get(5)?,
            })
        })
        .optional()
}

fn set_state(
    connection: &Connection,
    operation: i64,
    place: i64,
    state: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE bezoar_items SET state = ?3 WHERE operation = ?1 AND place = ?2")?
        .execute(params![operation, place, state])?;
    Ok(())
}

fn discard(
    connection: &Connection,
    operation: i64,
    turn: &Turn,
    row: &Dead,
) -> rusqlite::Result<()> {
    edit::reopen_original(connection, turn.dead, row.edited_from)?;
    row::delete_message(connection, row.seq, true)?;
    set_state(connection, operation, turn.place, "discarded")
}

/// Queues the message with the row `seq` as a new generation.
fn send(
    session: &mut Session,
    connection: &Connection,
    operation: i64,
    place: i64,
    row: &Dead,
    seq: i64,
) -> rusqlite::Result<()> {
    if session.rejoin(connection, row.queue, seq, (row.replayed + 1, row.history))? {
        session.count(row.queue, 1, 0);
    }
    let was = Some(row.seq).filter(|was| *was != seq);
    connection
        .prepare_cached(
            "UPDATE bezoar_items SET state = 'in flight', seq = ?3, was = ?4,
                 away = CASE (SELECT remote FROM bezoar_queues AS q WHERE q.id = bezoar_items.queue)
                        WHEN 1 THEN (SELECT m.id FROM bezoar_messages AS m WHERE m.seq = ?3) END
             WHERE operation = ?1 AND place = ?2",
        )?
        .execute(params![operation, place, seq, was])?;
    wake(session, connection, row.queue)
}

fn wake(session: &mut Session, connection: &Connection, queue: i64) -> rusqlite::Result<()> {
    let name: String = connection
        .prepare_cached("SELECT name FROM bezoar_queues WHERE id = ?1")?
        .query_row([queue], |row| row.get(0))?;
    if let Ok(name) = QueueName::new(name) {
        session.wake(&name);
    }
    Ok(())
}

/// Replaces a message with a copy under a new id. Returns its row and the size of its body.
fn copy(session: &Session, connection: &Connection, seq: i64) -> rusqlite::Result<(i64, i64)> {
    let id = MessageId::generate(session.now(), &mut rand::rng());
    let copy = row::copy_message(connection, seq, &id)?;
    connection
        .prepare_cached("UPDATE bezoar_attempts SET seq = ?2 WHERE seq = ?1")?
        .execute([seq, copy])?;
    let bytes = connection
        .prepare_cached("DELETE FROM bezoar_messages WHERE seq = ?1 RETURNING length(body)")?
        .query_row([seq], |row| row.get(0))?;
    Ok((copy, bytes))
}
