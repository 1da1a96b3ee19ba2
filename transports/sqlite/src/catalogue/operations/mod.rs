//! Operations: their progress, and the commands of operators.

pub(crate) mod advance;
pub(crate) mod plan;
pub(crate) mod replay_counts;
pub(crate) mod requests;
mod selection;

use bezoar_core::{
    DeadLetterId, MessageId, QueueName,
    catalogue::{
        AuditedAction, CatalogueError, CauseId, ItemState, Operation, OperationCommand,
        OperationId, OperationItem, OperationKind, OperationState, PAGE_LIMIT, ReplayIds,
    },
    millis,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    catalogue::{Found, audit, dead_letters::list::queue_name},
    row,
    session::Session,
};

/// The condition for a free dead letter: no operation that has not ended holds it.
pub(crate) const FREE: &str = "(operation IS NULL OR NOT EXISTS (
    SELECT 1 FROM bezoar_operations AS o
    WHERE o.id = bezoar_dead.operation AND o.state NOT IN ('cancelled', 'ended', 'void')))";

const COLUMNS: &str = "id, task, canary, per_second, stop_after, ids, state, who, why, planned_at,
    ended_at, stopped, total, refused, done, completed, failed";

pub(crate) fn operation(connection: &Connection, id: OperationId) -> Found<Operation> {
    let sql = format!(
        "SELECT {COLUMNS} FROM bezoar_operations
         WHERE id = ?1 AND state NOT IN ('freezing', 'void')"
    );
    let found = connection.prepare_cached(&sql)?.query_row([id.number()], read).optional()?;
    let Some(mut operation) = found else { return Ok(Err(CatalogueError::NoOperation(id))) };
    operation.queues = queues(connection, id)?;
    operation.held = held(connection, id)?;
    Ok(Ok(operation))
}

/// Lists operations, latest first.
pub(crate) fn operations(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<Operation>> {
    some(connection, "state NOT IN ('freezing', 'void') ORDER BY id DESC", limit)
}

/// Lists running operations, oldest first, so that none waits behind a later one.
pub(crate) fn running(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<Operation>> {
    some(connection, "state = 'running' ORDER BY id", limit)
}

fn some(connection: &Connection, which: &str, limit: u32) -> rusqlite::Result<Vec<Operation>> {
    let sql = format!("SELECT {COLUMNS} FROM bezoar_operations WHERE {which} LIMIT ?1");
    let mut found: Vec<Operation> = connection
        .prepare_cached(&sql)?
        .query_map([limit.clamp(1, PAGE_LIMIT)], read)?
        .collect::<rusqlite::Result<_>>()?;
    for operation in &mut found {
        operation.queues = queues(connection, operation.id)?;
        operation.held = held(connection, operation.id)?;
    }
    Ok(found)
}

fn queues(connection: &Connection, id: OperationId) -> rusqlite::Result<Vec<(QueueName, u64)>> {
    connection
        .prepare_cached(
            "SELECT q.name, n.count FROM bezoar_operation_queues AS n JOIN bezoar_queues AS q ON q.id = n.queue
             WHERE n.operation = ?1 ORDER BY q.name",
        )?
        .query_map([id.number()], |row| Ok((queue_name(row, 0)?, number(row, 1)?)))?
        .collect()
}

fn held(connection: &Connection, id: OperationId) -> rusqlite::Result<Vec<(OperationId, u64)>> {
    connection
        .prepare_cached(
            "SELECT holder, count FROM bezoar_operation_held WHERE operation = ?1 ORDER BY holder",
        )?
        .query_map([id.number()], |row| {
            Ok((OperationId::from_number(row.get(0)?), number(row, 1)?))
        })?
        .collect()
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0).unsigned_abs())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Operation> {
    let ids = if row::text(row, 5)? == Some("new") { ReplayIds::New } else { ReplayIds::Same };
    let kind = match row::text(row, 1)? {
        Some("replay") => OperationKind::Replay {
            canary: row::count(row, 2)?,
            per_second: row.get(3)?,
            stop_after: row.get::<_, Option<i64>>(4)?.map(|_| row::count(row, 4)).transpose()?,
            ids,
        },
        _ => OperationKind::Discard,
    };
    let state = row::text(row, 6)?.unwrap_or_default();
    Ok(Operation {
        id: OperationId::from_number(row.get(0)?),
        kind,
        state: OperationState::from_stored(state),
        actor: row.get(7)?,
        reason: row.get(8)?,
        planned_at: millis(row.get(9)?),
        ended_at: row.get::<_, Option<i64>>(10)?.map(millis),
        stopped: row.get(11)?,
        total: number(row, 12)?,
        refused: number(row, 13)?,
        held: Vec::new(),
        done: number(row, 14)?,
        completed: number(row, 15)?,
        failed: number(row, 16)?,
        queues: Vec::new(),
    })
}

/// Ends an operation if everything is done and every outcome is known.
pub(crate) fn end_if_done(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE bezoar_operations SET state = 'ended', ended_at = ?2
             WHERE id = ?1 AND state IN ('running', 'paused', 'stopped') AND done >= total
               AND (task = 'discard' OR completed + failed >= done)",
        )?
        .execute([id, now])?;
    Ok(())
}

pub(crate) fn items(
    connection: &Connection,
    id: OperationId,
    after: u64,
    limit: u32,
) -> Found<Vec<OperationItem>> {
    let operation = match operation(connection, id)? {
        Ok(operation) => operation,
        Err(refused) => return Ok(Err(refused)),
    };
    let waiting = match operation.state {
        OperationState::Cancelled => ItemState::Left,
        _ => ItemState::Waiting,
    };
    connection
        .prepare_cached(
            "SELECT i.place, i.dead, i.message_id, q.name, i.state, i.again, i.cause
             FROM bezoar_items AS i JOIN bezoar_queues AS q ON q.id = i.queue
             WHERE i.operation = ?1 AND i.place > ?2 ORDER BY i.place LIMIT ?3",
        )?
        .query_map(
            params![
                id.number(),
                i64::try_from(after).unwrap_or(i64::MAX),
                limit.clamp(1, PAGE_LIMIT)
            ],
            |row| item(row, &waiting),
        )?
        .collect::<rusqlite::Result<_>>()
        .map(Ok)
}

fn item(row: &Row<'_>, waiting: &ItemState) -> rusqlite::Result<OperationItem> {
    let again: Option<i64> = row.get(5)?;
    let cause = row::text(row, 6)?.and_then(|id| CauseId::new(id).ok());
    let dead: i64 = row.get(1)?;
    let damaged = |_| MessageId::new(format!("dead-{dead}")).expect("a short word");
    Ok(OperationItem {
        place: number(row, 0)?,
        dead_letter: DeadLetterId::from_number(dead),
        message_id: MessageId::new(row::text(row, 2)?.unwrap_or_default()).unwrap_or_else(damaged),
        queue: queue_name(row, 3)?,
        state: match (row::text(row, 4)?, again, cause) {
            (Some("failed again"), Some(again), Some(cause)) => {
                ItemState::Failed { again: DeadLetterId::from_number(again), cause }
            }
            (Some("in flight"), ..) => ItemState::InFlight,
            (Some("completed"), ..) => ItemState::Completed,
            (Some("discarded"), ..) => ItemState::Discarded,
            (Some("left"), ..) => ItemState::Left,
            _ => waiting.clone(),
        },
    })
}

/// Applies a command if the state allows it. Resuming an operation that stopped by itself accepts its failures: the
/// canary is over, and failures count from 0 towards the threshold.
pub(crate) fn command(
    session: &mut Session,
    connection: &Connection,
    (id, command): (OperationId, OperationCommand),
    action: &AuditedAction,
) -> Found<Operation> {
    let before = match operation(connection, id)? {
        Ok(operation) => operation,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(state) = command.applied_to(before.state) else {
        return Ok(Err(CatalogueError::Conflict(refusal(id, before.state))));
    };
    let ended = state.has_ended().then(|| session.now_millis());
    connection
        .prepare_cached(
            "UPDATE bezoar_operations
             SET canary = iif(state = 'stopped' AND ?2 = 'running', 0, canary),
                 stop_after = iif(state = 'stopped' AND ?2 = 'running', stop_after + failed, stop_after),
                 stopped = iif(?2 = 'running', NULL, stopped),
                 state = ?2, ended_at = ?3
             WHERE id = ?1",
        )?
        .execute(params![id.number(), state.as_str(), ended])?;
    audit::append(session, connection, action)?;
    operation(connection, id)
}

/// Why a command does not apply, and what is possible.
fn refusal(id: OperationId, state: OperationState) -> String {
    match state {
        OperationState::Planned => {
            format!("operation {id} is planned and has not started; start or cancel it")
        }
        OperationState::Stopped => format!("operation {id} has stopped; resume or cancel it"),
        OperationState::Ended => format!("operation {id} has ended; nothing was done"),
        state => format!("operation {id} is {}; nothing was done", state.as_str()),
    }
}

/// Stops a running operation. An operation that is not running does not change.
pub(crate) fn stop(connection: &Connection, id: OperationId, why: &str) -> Found<Operation> {
    connection
        .prepare_cached(
            "UPDATE bezoar_operations SET state = 'stopped', stopped = ?2
             WHERE id = ?1 AND state = 'running'",
        )?
        .execute(params![id.number(), why])?;
    operation(connection, id)
}
