//! Freezes a selection.
//!
//! The selection is read at one moment. Its dead letters are then taken in pieces, so that a million of them are not
//! locked at once. The operation is invisible until the last piece. If freezing is interrupted before that, the operation
//! is void, and the dead letters it had taken are free again at once.

use std::sync::Arc;

use bezoar_core::{
    DeadLetterId,
    catalogue::{
        AuditedAction, CatalogueError, HeldLetters, Operation, OperationId, OperationKind,
        OperationPlan, ReplayIds,
    },
};
use sqlx::Row;

use super::{
    requests,
    selection::{Chosen, Missing, choose, held_error, holders, unexpected},
};
use crate::{
    PostgresTransport,
    catalogue::{
        Found, audit,
        operations::{self, FREE},
        session::{Session, number},
    },
    database::{Database, Scope},
};

/// How many dead letters are taken in one transaction.
const PIECE: usize = 5_000;
/// An operation that was not frozen further for this long is abandoned.
pub(super) const PATIENCE_MILLIS: i64 = 10_000;
/// How many items of void operations are removed with each plan.
const SWEEP_LIMIT: u32 = 20_000;

impl PostgresTransport {
    pub(crate) async fn freeze(
        &self,
        plan: OperationPlan,
        action: AuditedAction,
    ) -> Result<Operation, CatalogueError> {
        plan.check()?;
        self.transact("plan", (), |session, ()| {
            Box::pin(async { sweep_void(session, SWEEP_LIMIT).await.map(Ok) })
        })
        .await?;
        let chosen = self
            .look("plan", plan.clone(), |session, plan| Box::pin(choose(session, plan)))
            .await?;
        unexpected(&plan, &chosen)?;
        let mut step = Step {
            operation: None,
            ids: Vec::new(),
            is_last: false,
            asked: chosen.without_ids(),
            plan,
            action,
        };
        let mut pieces = chosen.ids.chunks(PIECE).peekable();
        let mut freezing = None;
        loop {
            step.ids = pieces.next().unwrap_or_default().to_vec();
            step.is_last = pieces.peek().is_none();
            let id = self
                .transact("plan", step.clone(), |session, step| Box::pin(take_step(session, step)))
                .await?;
            let freezing = freezing.get_or_insert_with(|| Freezing {
                database: self.database.clone(),
                operation: id,
                is_done: false,
            });
            step.operation = Some(id);
            if step.is_last {
                freezing.is_done = true;
                return self
                    .look("plan", id, |session, id| Box::pin(operations::operation(session, *id)))
                    .await;
            }
        }
    }
}

/// An operation whose selection is not complete. Dropping it before completion makes the operation void.
struct Freezing {
    database: Arc<Database>,
    operation: OperationId,
    is_done: bool,
}

impl Drop for Freezing {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_done {
            return;
        }
        let (database, id) = (self.database.clone(), self.operation.number());
        // If this fails, the operation becomes void once it has not been touched for a while.
        runtime.spawn(async move {
            let make_void = |database: &Database| {
                let sql = "UPDATE {schema}.operations SET state = 'void' WHERE id = $1 AND state = 'freezing'";
                database.statement(sql).bind(id)
            };
            database
                .run_here("plan", Scope::Write, &move |database, connection| {
                    let query = make_void(database);
                    Box::pin(async move { query.execute(connection).await.map(drop) })
                })
                .await
        });
    }
}

/// A piece of a selection.
#[derive(Debug)]
struct Step {
    /// `None` for the first piece.
    operation: Option<OperationId>,
    ids: Vec<i64>,
    is_last: bool,
    asked: Chosen,
    plan: OperationPlan,
    action: AuditedAction,
}

impl Clone for Step {
    fn clone(&self) -> Self {
        Self {
            operation: self.operation,
            ids: self.ids.clone(),
            is_last: self.is_last,
            asked: self.asked.without_ids(),
            plan: self.plan.clone(),
            action: self.action.clone(),
        }
    }
}

async fn take_step(session: &mut Session<'_>, step: &Step) -> Found<OperationId> {
    let id = match step.operation {
        Some(id) => id,
        None => match begin(session, step).await? {
            Ok(id) => id,
            Err(refused) => return Ok(Err(refused)),
        },
    };
    let touch = session
        .query(
            "UPDATE {schema}.operations SET touched_at = $2 WHERE id = $1 AND state = 'freezing'",
        )
        .bind(id.number())
        .bind(session.now_millis());
    if session.execute(touch).await? == 0 {
        let why = "planning was interrupted for too long; plan again".to_owned();
        return Ok(Err(CatalogueError::Conflict(why)));
    }
    if let Err(refusal) = take(session, id.number(), step).await? {
        return Ok(Err(refusal));
    }
    if step.is_last {
        return finish(session, id, step).await;
    }
    Ok(Ok(id))
}

/// Stores an operation without dead letters, unless the request was made before.
async fn begin(session: &mut Session<'_>, step: &Step) -> Found<OperationId> {
    let request = step.plan.request.as_ref();
    if let Some(request) = request
        && let Err(refused) = requests::check_new(session, &step.action.actor, request).await?
    {
        return Ok(Err(refused));
    }
    let (name, canary, per_second, stop_after, ids) = match &step.plan.kind {
        OperationKind::Replay { canary, per_second, stop_after, ids } => {
            let ids = if *ids == ReplayIds::New { "new" } else { "same" };
            ("replay", *canary, *per_second, *stop_after, ids)
        }
        OperationKind::Discard => ("discard", 0, None, None, "same"),
    };
    let insert = session
        .query(
            "INSERT INTO {schema}.operations
             (task, canary, per_second, stop_after, ids, state, who, why, planned_at, touched_at, refused,
              request_key, request_digest)
             VALUES ($1, $2, $3, $4, $5, 'freezing', $6, $7, $8, $8, $9, $10, $11) RETURNING id",
        )
        .bind(name)
        .bind(i64::from(canary))
        .bind(per_second)
        .bind(stop_after.map(i64::from))
        .bind(ids)
        .bind(step.action.actor.clone())
        .bind(step.action.reason.clone())
        .bind(session.now_millis())
        .bind(step.asked.refused.cast_signed())
        .bind(request.map(|request| request.key.as_str().to_owned()))
        .bind(request.map(|request| request.digest.to_vec()));
    let id: i64 = session.one(insert).await?.try_get(0)?;
    hold(session, id, &step.asked.held).await?;
    Ok(Ok(OperationId::from_number(id)))
}

/// Records that other operations hold some of the selected dead letters.
async fn hold(
    session: &mut Session<'_>,
    id: i64,
    held: &std::collections::BTreeMap<i64, u64>,
) -> sqlx::Result<()> {
    let (holders, counts): (Vec<i64>, Vec<i64>) =
        held.iter().map(|(holder, count)| (*holder, count.cast_signed())).unzip();
    let insert = session
        .query(
            "INSERT INTO {schema}.operation_held AS known (operation, holder, count)
             SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])
             ON CONFLICT (operation, holder) DO UPDATE SET count = known.count + excluded.count",
        )
        .bind(id)
        .bind(holders)
        .bind(counts);
    session.execute(insert).await.map(drop)
}

/// Takes the free dead letters and adds them at the end. Edited and unapproved ones can only be discarded.
///
/// The rows are locked first, in the order of their ids: only a later statement sees the operation of whoever had
/// locked them before.
async fn take(session: &mut Session<'_>, operation: i64, step: &Step) -> Found<()> {
    let lock = session
        .query("SELECT id FROM {schema}.dead WHERE id = ANY ($1) ORDER BY id FOR UPDATE")
        .bind(step.ids.clone());
    let existing = session.all(lock).await?;
    if step.asked.missing == Missing::IsAnError && existing.len() < step.ids.len() {
        return Ok(Err(missing(&existing, &step.ids)?));
    }
    let held = holders(session, step.ids.clone()).await?;
    if step.plan.held == HeldLetters::Refuse && !held.is_empty() {
        return Ok(Err(held_error(&held)));
    }
    if step.asked.missing == Missing::IsRefused {
        // Another operation took them after they were chosen. Those selected by id were counted when they were chosen.
        hold(session, operation, &held).await?;
    }
    let sql = format!(
        "WITH mine AS (
             UPDATE {{schema}}.dead AS d SET operation = $1
             WHERE d.id = ANY ($2) AND ($3 OR (d.edited_as IS NULL AND NOT d.unapproved)) AND {FREE}
             RETURNING d.id, d.seq, d.message_id, d.queue
         ), numbered AS MATERIALIZED (
             SELECT *, (SELECT total FROM {{schema}}.operations WHERE id = $1) + row_number() OVER (ORDER BY id) AS place
             FROM mine
         ), listed AS (
             INSERT INTO {{schema}}.items (operation, place, dead, seq, message_id, queue, state)
             SELECT $1, place, id, seq, message_id, queue, 'waiting' FROM numbered
         ), counted AS (
             INSERT INTO {{schema}}.operation_queues AS known (operation, queue, count)
             SELECT $1, queue, count(*) FROM numbered GROUP BY queue
             ON CONFLICT (operation, queue) DO UPDATE SET count = known.count + excluded.count
         )
         UPDATE {{schema}}.operations
         SET total = total + (SELECT count(*) FROM numbered),
             refused = refused + cardinality($2) - (SELECT count(*) FROM numbered)
         WHERE id = $1"
    );
    let take = session
        .query(&sql)
        .bind(operation)
        .bind(step.ids.clone())
        .bind(step.plan.kind == OperationKind::Discard);
    session.execute(take).await?;
    Ok(Ok(()))
}

/// The first of these ids that no dead letter has.
fn missing(existing: &[sqlx::postgres::PgRow], ids: &[i64]) -> sqlx::Result<CatalogueError> {
    let existing: Vec<i64> =
        existing.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    let missing = ids.iter().find(|id| existing.binary_search(id).is_err());
    let missing = missing.copied().unwrap_or_default();
    Ok(CatalogueError::NoDeadLetter(DeadLetterId::from_number(missing)))
}

/// Makes the operation visible and writes its entry to the audit log.
async fn finish(session: &mut Session<'_>, id: OperationId, step: &Step) -> Found<OperationId> {
    let finish = session
        .query(
            "UPDATE {schema}.operations
             SET state = CASE total WHEN 0 THEN 'ended' ELSE 'planned' END,
                 ended_at = CASE total WHEN 0 THEN $2 END, planned_at = $2
             WHERE id = $1 RETURNING total",
        )
        .bind(id.number())
        .bind(session.now_millis());
    let total = number(&session.one(finish).await?, 0)?;
    if let Err(unexpected) = step.plan.check_expected(total) {
        return Ok(Err(unexpected));
    }
    audit::append(session, &step.action).await?;
    Ok(Ok(id))
}

/// Notes which operations have ended, marks abandoned ones as void, and removes some of the items of void operations.
pub(crate) async fn sweep_void(session: &mut Session<'_>, limit: u32) -> sqlx::Result<()> {
    operations::note_ended(session).await?;
    let abandoned = session
        .query(
            "UPDATE {schema}.operations SET state = 'void' WHERE id = ANY (ARRAY(
                 SELECT id FROM {schema}.operations
                 WHERE state NOT IN ('cancelled', 'ended', 'void') AND state = 'freezing' AND touched_at < $1
                 FOR UPDATE SKIP LOCKED))",
        )
        .bind(session.now_millis() - PATIENCE_MILLIS);
    session.execute(abandoned).await?;
    let void = session.query(
        "SELECT id FROM {schema}.operations WHERE state = 'void' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
    );
    match session.optional(void).await? {
        Some(row) => forget(session, row.try_get(0)?, limit).await,
        None => Ok(()),
    }
}

/// Removes items of an operation, and the operation itself with the last one.
async fn forget(session: &mut Session<'_>, id: i64, limit: u32) -> sqlx::Result<()> {
    let items = session
        .query(
            "DELETE FROM {schema}.items WHERE operation = $1 AND place = ANY (ARRAY(
                 SELECT place FROM {schema}.items WHERE operation = $1 ORDER BY place LIMIT $2))",
        )
        .bind(id)
        .bind(i64::from(limit));
    if session.execute(items).await? < u64::from(limit) {
        let forget = session
            .query(
                "WITH queues AS (DELETE FROM {schema}.operation_queues WHERE operation = $1),
                      held AS (DELETE FROM {schema}.operation_held WHERE operation = $1),
                      counted AS (DELETE FROM {schema}.outcomes WHERE operation = $1)
                 DELETE FROM {schema}.operations WHERE id = $1",
            )
            .bind(id);
        session.execute(forget).await?;
    }
    Ok(())
}
