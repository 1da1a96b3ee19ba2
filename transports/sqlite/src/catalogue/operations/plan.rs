//! Freezes a selection.
//!
//! The selection is read at one moment. Its dead letters are then taken in pieces, so that a million of them do
//! not block any queue. The operation is invisible until the last piece. If freezing is interrupted before that,
//! the operation is void, and the dead letters it had taken are free again at once.

use std::collections::BTreeMap;

use bezoar_core::{
    DeadLetterId,
    catalogue::{
        AuditedAction, CatalogueError, HeldLetters, Operation, OperationId, OperationKind,
        OperationPlan, ReplayIds,
    },
};
use rusqlite::{Connection, OptionalExtension, params, types::ToSqlOutput};

use super::{
    requests,
    selection::{Chosen, Missing, choose, held_error, holder, unexpected},
};
use crate::{
    SqliteTransport,
    catalogue::{
        Found, audit,
        operations::{self, FREE},
    },
    session::Session,
    writer::Writer,
};

/// How many dead letters are taken in one transaction.
const PIECE: usize = 5_000;
/// An operation that was not frozen further for this long is abandoned.
pub(super) const PATIENCE_MILLIS: i64 = 10_000;
/// How many items of void operations are removed with each plan.
const SWEEP_LIMIT: u32 = 20_000;

impl SqliteTransport {
    pub(crate) async fn freeze(
        &self,
        plan: &OperationPlan,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError> {
        plan.check()?;
        self.transact("plan", |session, it| {
            sweep_void(it, session.now_millis(), SWEEP_LIMIT).map(Ok)
        })
        .await?;
        let wanted = plan.clone();
        let chosen = self.read("plan", move |connection| choose(connection, &wanted)).await??;
        unexpected(plan, &chosen)?;
        let mut pieces = chosen.ids.chunks(PIECE).peekable();
        let mut ids = pieces.next().unwrap_or_default();
        let mut freezing = None;
        loop {
            let step = Step {
                operation: freezing.as_ref().map(|it: &Freezing| it.operation),
                ids: ids.to_vec(),
                is_last: pieces.peek().is_none(),
            };
            let taken = self.take_step(step, plan, &chosen, action).await?;
            let Some(next) = pieces.next() else {
                let id = taken.done();
                freezing.map(Freezing::done);
                return self.read("plan", move |it| operations::operation(it, id)).await?;
            };
            ids = next;
            match &freezing {
                None => freezing = Some(taken),
                Some(_) => drop(taken.done()),
            }
        }
    }

    /// Takes one piece. The returned value is created when the piece is committed: if the caller is gone by
    /// then, dropping it makes the operation void.
    async fn take_step(
        &self,
        step: Step,
        plan: &OperationPlan,
        chosen: &Chosen,
        action: &AuditedAction,
    ) -> Result<Freezing, CatalogueError> {
        let (plan, action, asked) = (plan.clone(), action.clone(), chosen.without_ids());
        let work = move |session: &mut Session, connection: &Connection| {
            session.undoing(connection, |session, connection| {
                take_step(session, connection, &step, (&plan, &asked), &action)
            })
        };
        let writer = self.writer.clone();
        let hand_over = |taken: Result<OperationId, CatalogueError>| {
            taken.map(|operation| Freezing { writer, operation, is_done: false })
        };
        self.writer.queue("plan", 0, work, hand_over).await?.wait().await?
    }
}

/// An operation whose selection is not complete. Dropping it before completion makes the operation
/// void.
struct Freezing {
    writer: Writer,
    operation: OperationId,
    is_done: bool,
}

impl Freezing {
    /// The selection is complete: dropping no longer makes the operation void.
    fn done(mut self) -> OperationId {
        self.is_done = true;
        self.operation
    }
}

impl Drop for Freezing {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let id = self.operation.number();
        // If the inbox is full, the operation becomes void once it has not been touched for a
        // while.
        self.writer.submit("plan", move |_, connection| {
            let sql =
                "UPDATE bezoar_operations SET state = 'void' WHERE id = ?1 AND state = 'freezing'";
            connection.execute(sql, [id]).map(drop)
        });
    }
}

/// A piece of a selection.
struct Step {
    /// `None` for the first piece.
    operation: Option<OperationId>,
    ids: Vec<i64>,
    is_last: bool,
}

fn take_step(
    session: &mut Session,
    connection: &Connection,
    step: &Step,
    (plan, asked): (&OperationPlan, &Chosen),
    action: &AuditedAction,
) -> Found<OperationId> {
    let id = match step.operation {
        Some(id) => id,
        None => match begin(session, connection, (plan, asked), action)? {
            Ok(id) => id,
            Err(refused) => return Ok(Err(refused)),
        },
    };
    let goes_on = connection
        .prepare_cached(
            "UPDATE bezoar_operations SET touched_at = ?2 WHERE id = ?1 AND state = 'freezing'",
        )?
        .execute([id.number(), session.now_millis()])?;
    if goes_on == 0 {
        let why = "planning was interrupted for too long; plan again".to_owned();
        return Ok(Err(CatalogueError::Conflict(why)));
    }
    if let Err(refusal) = take(connection, id.number(), &step.ids, (plan, asked.missing))? {
        return Ok(Err(refusal));
    }
    if step.is_last {
        return finish(session, connection, id, plan, action);
    }
    Ok(Ok(id))
}

/// Stores an operation without dead letters, unless the request was made before.
fn begin(
    session: &Session,
    connection: &Connection,
    (plan, asked): (&OperationPlan, &Chosen),
    action: &AuditedAction,
) -> Found<OperationId> {
    if let Some(request) = &plan.request {
        let known = requests::find(connection, (&action.actor, request), session.now_millis())?;
        match known.and_then(|known| known.map_or(Ok(()), |id| Err(CatalogueError::Repeated(id)))) {
            Ok(()) => (),
            Err(refused) => return Ok(Err(refused)),
        }
    }
    let (name, canary, per_second, stop_after, ids) = match &plan.kind {
        OperationKind::Replay { canary, per_second, stop_after, ids } => {
            let ids = if *ids == ReplayIds::New { "new" } else { "same" };
            ("replay", *canary, *per_second, *stop_after, ids)
        }
        OperationKind::Discard => ("discard", 0, None, None, "same"),
    };
    let id = connection
        .prepare_cached(
            "INSERT INTO bezoar_operations
             (task, canary, per_second, stop_after, ids, state, who, why, planned_at, touched_at, refused,
              request_key, request_digest)
             VALUES (?1, ?2, ?3, ?4, ?5, 'freezing', ?6, ?7, ?8, ?8, ?9, ?10, ?11)",
        )?
        .insert(params![
            name,
            canary,
            per_second,
            stop_after,
            ids,
            action.actor,
            action.reason,
            session.now_millis(),
            asked.refused as i64,
            plan.request.as_ref().map(|request| request.key.as_str()),
            plan.request.as_ref().map(|request| request.digest),
        ])?;
    for (holder, count) in &asked.held {
        hold(connection, id, *holder, *count)?;
    }
    Ok(Ok(OperationId::from_number(id)))
}

/// Records that another operation holds some of the selected dead letters.
fn hold(connection: &Connection, id: i64, holder: i64, count: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO bezoar_operation_held VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?
        .execute(params![id, holder, count as i64])?;
    Ok(())
}

/// Takes the free dead letters and adds them at the end. Edited and unapproved ones can only be discarded.
fn take(
    connection: &Connection,
    operation: i64,
    ids: &[i64],
    (plan, missing): (&OperationPlan, Missing),
) -> Found<()> {
    let whatever = plan.kind == OperationKind::Discard;
    let sql = format!(
        "UPDATE bezoar_dead SET operation = ?1
         WHERE id = ?2 AND (?3 OR (edited_as IS NULL AND unapproved = 0)) AND {FREE}
         RETURNING seq, message_id, queue"
    );
    let mut mark = connection.prepare_cached(&sql)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO bezoar_items (operation, place, dead, seq, message_id, queue, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'waiting')",
    )?;
    let total: i64 = connection
        .prepare_cached("SELECT total FROM bezoar_operations WHERE id = ?1")?
        .query_row([operation], |row| row.get(0))?;
    let (mut place, mut refused, mut held) = (total, 0, BTreeMap::new());
    for &id in ids {
        let mut rows = mark.query(params![operation, id, whatever])?;
        if let Some(row) = rows.next()? {
            place += 1;
            let (seq, queue): (i64, i64) = (row.get(0)?, row.get(2)?);
            let message_id = ToSqlOutput::Borrowed(row.get_ref(1)?);
            insert.execute(params![operation, place, id, seq, message_id, queue])?;
        } else if matches!(missing, Missing::IsAnError) && !exists(connection, id)? {
            return Ok(Err(CatalogueError::NoDeadLetter(DeadLetterId::from_number(id))));
        } else {
            refused += 1;
            // Letters selected by id were counted when they were chosen, unless another operation
            // took them since.
            if let Some(holder) = holder(connection, id)? {
                held.entry(holder).and_modify(|count| *count += 1).or_insert(1);
            }
        }
    }
    if plan.held == HeldLetters::Refuse && !held.is_empty() {
        return Ok(Err(held_error(&held)));
    }
    if matches!(missing, Missing::IsRefused) {
        // Another operation took them after they were chosen.
        for (holder, count) in held {
            hold(connection, operation, holder, count)?;
        }
    }
    connection
        .prepare_cached(
            "UPDATE bezoar_operations SET total = ?2, refused = refused + ?3 WHERE id = ?1",
        )?
        .execute([operation, place, refused])?;
    connection
        .prepare_cached(
            "INSERT INTO bezoar_operation_queues
             SELECT operation, queue, count(*) FROM bezoar_items
             WHERE operation = ?1 AND place > ?2 GROUP BY queue
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?
        .execute([operation, total])?;
    Ok(Ok(()))
}

fn exists(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let mut select = connection.prepare_cached("SELECT 1 FROM bezoar_dead WHERE id = ?1")?;
    Ok(select.query_row([id], |_| Ok(())).optional()?.is_some())
}

/// Makes the operation visible and writes its entry to the audit log.
fn finish(
    session: &Session,
    connection: &Connection,
    id: OperationId,
    plan: &OperationPlan,
    action: &AuditedAction,
) -> Found<OperationId> {
    let total: i64 = connection
        .prepare_cached(
            "UPDATE bezoar_operations
             SET state = CASE total WHEN 0 THEN 'ended' ELSE 'planned' END,
                 ended_at = CASE total WHEN 0 THEN ?2 END, planned_at = ?2
             WHERE id = ?1 RETURNING total",
        )?
        .query_row([id.number(), session.now_millis()], |row| row.get(0))?;
    let found = total.unsigned_abs();
    if let Err(unexpected) = plan.check_expected(found) {
        return Ok(Err(unexpected));
    }
    audit::append(session, connection, action)?;
    Ok(Ok(id))
}

/// Marks abandoned operations as void, and removes some of the items of void operations.
pub(crate) fn sweep_void(connection: &Connection, now: i64, limit: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE bezoar_operations SET state = 'void' WHERE state = 'freezing' AND touched_at < ?1",
        )?
        .execute([now - PATIENCE_MILLIS])?;
    let void = connection
        .prepare_cached("SELECT id FROM bezoar_operations WHERE state = 'void' LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    void.map_or(Ok(()), |id| forget(connection, id, limit))
}

/// Removes items of an operation, and the operation itself with the last one.
fn forget(connection: &Connection, id: i64, limit: u32) -> rusqlite::Result<()> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM bezoar_items WHERE operation = ?1
             AND place IN (SELECT place FROM bezoar_items WHERE operation = ?1 LIMIT ?2)",
        )?
        .execute(params![id, limit])?;
    if removed < limit as usize {
        for sql in [
            "DELETE FROM bezoar_operation_queues WHERE operation = ?1",
            "DELETE FROM bezoar_operation_held WHERE operation = ?1",
            "DELETE FROM bezoar_operations WHERE id = ?1",
        ] {
            connection.prepare_cached(sql)?.execute([id])?;
        }
    }
    Ok(())
}
