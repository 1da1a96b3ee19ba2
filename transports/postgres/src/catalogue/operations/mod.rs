//! Operations: their progress, and the commands of operators.

pub(crate) mod advance;
pub(crate) mod outcomes;
pub(crate) mod plan;
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
use sqlx::{Row, postgres::PgRow};

use super::{
    Found, audit,
    dead_letters::list::queue_name,
    session::{Session, number},
};
use crate::row::without_nul;

/// The condition for a free dead letter `d`: no operation that has not ended holds it.
pub(crate) const FREE: &str = "(d.operation IS NULL OR NOT EXISTS (
    SELECT 1 FROM {schema}.operations AS o
    WHERE o.id = d.operation AND o.state NOT IN ('cancelled', 'ended', 'void')))";

const SELECT: &str = "SELECT p.id, p.task, p.canary, p.per_second, p.stop_after, p.ids, p.state, p.who, p.why, p.planned_at,
    p.ended_at, p.stopped, p.total, p.refused, p.done, p.completed, p.failed,
    ARRAY(SELECT q.name FROM {schema}.operation_queues AS n JOIN {schema}.queues AS q ON q.id = n.queue
          WHERE n.operation = p.id ORDER BY q.name),
    ARRAY(SELECT n.count FROM {schema}.operation_queues AS n JOIN {schema}.queues AS q ON q.id = n.queue
          WHERE n.operation = p.id ORDER BY q.name),
    ARRAY(SELECT h.holder FROM {schema}.operation_held AS h WHERE h.operation = p.id ORDER BY h.holder),
    ARRAY(SELECT h.count FROM {schema}.operation_held AS h WHERE h.operation = p.id ORDER BY h.holder)
    FROM {schema}.operation_progress AS p WHERE ";

pub(crate) async fn operation(session: &mut Session<'_>, id: OperationId) -> Found<Operation> {
    let sql = format!("{SELECT} p.id = $1 AND p.state NOT IN ('freezing', 'void')");
    let select = session.query(&sql).bind(id.number());
    match session.optional(select).await? {
        Some(row) => read(&row).map(Ok),
        None => Ok(Err(CatalogueError::NoOperation(id))),
    }
}

/// Lists operations, latest first.
pub(crate) async fn operations(
    session: &mut Session<'_>,
    limit: u32,
) -> sqlx::Result<Vec<Operation>> {
    some(session, "p.state NOT IN ('freezing', 'void') ORDER BY p.id DESC", limit).await
}

/// Lists running operations, oldest first, so that none waits behind a later one.
pub(crate) async fn running(session: &mut Session<'_>, limit: u32) -> sqlx::Result<Vec<Operation>> {
    let unended = "p.id IN (SELECT o.id FROM {schema}.operations AS o
                            WHERE o.state NOT IN ('cancelled', 'ended', 'void') AND o.state = 'running')";
    some(session, &format!("{unended} AND p.state = 'running' ORDER BY p.id"), limit).await
}

async fn some(session: &mut Session<'_>, which: &str, limit: u32) -> sqlx::Result<Vec<Operation>> {
    let select = session.query(&format!("{SELECT} {which} LIMIT $1"));
    let rows = session.all(select.bind(i64::from(limit.clamp(1, PAGE_LIMIT)))).await?;
    rows.iter().map(read).collect()
}

fn read(row: &PgRow) -> sqlx::Result<Operation> {
    let most = |count: i64| u32::try_from(count.max(0)).unwrap_or(u32::MAX);
    let ids = if row.try_get::<&str, _>(5)? == "new" { ReplayIds::New } else { ReplayIds::Same };
    let kind = match row.try_get(1)? {
        "replay" => OperationKind::Replay {
            canary: most(row.try_get(2)?),
            per_second: row.try_get(3)?,
            stop_after: row.try_get::<Option<i64>, _>(4)?.map(most),
            ids,
        },
        _ => OperationKind::Discard,
    };
    let state: &str = row.try_get(6)?;
    Ok(Operation {
        id: OperationId::from_number(row.try_get(0)?),
        kind,
        state: OperationState::from_stored(state),
        actor: row.try_get(7)?,
        reason: row.try_get(8)?,
        planned_at: millis(row.try_get(9)?),
        ended_at: row.try_get::<Option<i64>, _>(10)?.map(millis),
        stopped: row.try_get(11)?,
        total: number(row, 12)?,
        refused: number(row, 13)?,
        held: counted(row, 19, OperationId::from_number)?,
        done: number(row, 14)?,
        completed: number(row, 15)?,
        failed: number(row, 16)?,
        queues: counted(row, 17, |name: String| {
            QueueName::new(name)
                .unwrap_or_else(|_| QueueName::new("damaged").expect("a short word"))
        })?,
    })
}

/// Things and their counts, from two arrays.
fn counted<'r, T, U>(
    row: &'r PgRow,
    column: usize,
    thing: impl Fn(T) -> U,
) -> sqlx::Result<Vec<(U, u64)>>
where
    Vec<T>: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    let (things, counts): (Vec<T>, Vec<i64>) = (row.try_get(column)?, row.try_get(column + 1)?);
    let counts = counts.into_iter().map(|count| count.max(0).unsigned_abs());
    Ok(things.into_iter().map(thing).zip(counts).collect())
}

/// Locks an operation, and adds up its outcomes. What follows sees what others have changed.
async fn lock(session: &mut Session<'_>, id: OperationId) -> sqlx::Result<()> {
    let lock = session.query("SELECT 1 FROM {schema}.operations WHERE id = $1 FOR UPDATE");
    session.optional(lock.bind(id.number())).await?;
    outcomes::add_up(session, id).await
}

/// Ends an operation if everything is done and every outcome is known.
async fn end_if_done(session: &mut Session<'_>, id: OperationId) -> sqlx::Result<()> {
    let end = session
        .query(
            "UPDATE {schema}.operations SET state = 'ended', ended_at = $2
             WHERE id = $1 AND state IN ('running', 'paused', 'stopped') AND done >= total
               AND (task = 'discard' OR completed + failed >= done)",
        )
        .bind(id.number())
        .bind(session.now_millis());
    session.execute(end).await.map(drop)
}

/// Ends operations whose last outcomes were appended after their last step.
async fn note_ended(session: &mut Session<'_>) -> sqlx::Result<()> {
    let over = session
        .query(
            "SELECT o.id, p.ended_at FROM {schema}.operations AS o
             CROSS JOIN LATERAL (
                 SELECT state, ended_at FROM {schema}.operation_progress AS p WHERE p.id = o.id OFFSET 0
             ) AS p
             WHERE o.state NOT IN ('cancelled', 'ended', 'void') AND o.state <> p.state AND p.state = 'ended'
             ORDER BY o.id LIMIT $1 FOR UPDATE OF o SKIP LOCKED",
        )
        .bind(i64::from(PAGE_LIMIT));
    for row in session.all(over).await? {
        let id = OperationId::from_number(row.try_get(0)?);
        outcomes::add_up(session, id).await?;
        let end = session
            .query("UPDATE {schema}.operations SET state = 'ended', ended_at = $2 WHERE id = $1")
            .bind(id.number())
            .bind(row.try_get::<Option<i64>, _>(1)?);
        session.execute(end).await?;
    }
    Ok(())
}

pub(crate) async fn items(
    session: &mut Session<'_>,
    id: OperationId,
    (after, limit): (u64, u32),
) -> Found<Vec<OperationItem>> {
    let operation = match operation(session, id).await? {
        Ok(operation) => operation,
        Err(refused) => return Ok(Err(refused)),
    };
    let waiting = match operation.state {
        OperationState::Cancelled => ItemState::Left,
        _ => ItemState::Waiting,
    };
    let select = session
        .query(
            "SELECT i.place, i.dead, i.message_id,
                    (SELECT q.name FROM {schema}.queues AS q WHERE q.id = i.queue), i.state, i.again, i.cause
             FROM {schema}.items AS i
             WHERE i.operation = $1 AND i.place > $2 ORDER BY i.place LIMIT $3",
        )
        .bind(id.number())
        .bind(i64::try_from(after).unwrap_or(i64::MAX))
        .bind(i64::from(limit.clamp(1, PAGE_LIMIT)));
    let rows = session.all(select).await?;
    rows.iter().map(|row| item(row, &waiting)).collect::<sqlx::Result<_>>().map(Ok)
}

fn item(row: &PgRow, waiting: &ItemState) -> sqlx::Result<OperationItem> {
    let dead: i64 = row.try_get(1)?;
    let damaged = |_| MessageId::new(format!("dead-{dead}")).expect("a short word");
    Ok(OperationItem {
        place: number(row, 0)?,
        dead_letter: DeadLetterId::from_number(dead),
        message_id: MessageId::new(row.try_get::<&str, _>(2)?).unwrap_or_else(damaged),
        queue: queue_name(row, 3)?,
        state: item_state(row, 4, waiting)?,
    })
}

/// The outcome of an item: its state, the dead letter that it became, and the cause of that.
pub(crate) fn item_state(row: &PgRow, at: usize, waiting: &ItemState) -> sqlx::Result<ItemState> {
    let again: Option<i64> = row.try_get(at + 1)?;
    let cause = row.try_get::<Option<&str>, _>(at + 2)?.and_then(|id| CauseId::new(id).ok());
    Ok(match (row.try_get(at)?, again, cause) {
        ("failed again", Some(again), Some(cause)) => {
            ItemState::Failed { again: DeadLetterId::from_number(again), cause }
        }
        ("in flight", ..) => ItemState::InFlight,
        ("completed", ..) => ItemState::Completed,
        ("discarded", ..) => ItemState::Discarded,
        ("left", ..) => ItemState::Left,
        _ => waiting.clone(),
    })
}

/// Applies a command if the state allows it. Resuming an operation that stopped by itself accepts its failures: the
/// canary is over, and failures count from 0 towards the threshold.
pub(crate) async fn command(
    session: &mut Session<'_>,
    (id, command): (OperationId, OperationCommand),
    action: &AuditedAction,
) -> Found<Operation> {
    lock(session, id).await?;
    let before = match operation(session, id).await? {
        Ok(operation) => operation,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(state) = command.applied_to(before.state) else {
        return Ok(Err(CatalogueError::Conflict(refusal(id, before.state))));
    };
    let update = session
        .query(
            "UPDATE {schema}.operations
             SET canary = CASE WHEN state = 'stopped' AND $2 = 'running' THEN 0 ELSE canary END,
                 stop_after = CASE WHEN state = 'stopped' AND $2 = 'running' THEN stop_after + failed
                              ELSE stop_after END,
                 stopped = CASE WHEN $2 = 'running' THEN NULL ELSE stopped END,
                 state = $2, ended_at = $3
             WHERE id = $1",
        )
        .bind(id.number())
        .bind(state.as_str())
        .bind(state.has_ended().then(|| session.now_millis()));
    session.execute(update).await?;
    audit::append(session, action).await?;
    operation(session, id).await
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
pub(crate) async fn stop(
    session: &mut Session<'_>,
    id: OperationId,
    why: &str,
) -> Found<Operation> {
    let stop = session
        .query(
            "UPDATE {schema}.operations SET state = 'stopped', stopped = $2 WHERE id = $1 AND state = 'running'",
        )
        .bind(id.number())
        .bind(without_nul(why.to_owned()));
    session.execute(stop).await?;
    operation(session, id).await
}
