//! Carries out the next step of an operation.
//!
//! The operation's row is locked for the whole step, so of several gateways one does it. Each dead letter leaves its
//! table in the transaction that sends or removes its message: it is sent once, also after a crash.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bezoar_core::{
    MessageId,
    catalogue::{
        Advance, NextStep, Operation, OperationId, OperationKind, OperationState, ReplayIds,
    },
};
use sqlx::Row;

use crate::{
    catalogue::{
        Found,
        dead_letters::expire::{REMOVED, removed},
        operations,
        session::Session,
    },
    send,
};

/// The maximum number of dead letters in one transaction.
const PIECE_LIMIT: u64 = 10_000;

/// Carries out the next step of a running operation, as far as its progress allows. If it is not running, nothing is
/// done; the returned state says so.
pub(crate) async fn advance(
    session: &mut Session<'_>,
    id: OperationId,
    most: u32,
) -> Found<Advance> {
    operations::lock(session, id).await?;
    let before = match operations::operation(session, id).await? {
        Ok(operation) => operation,
        Err(refused) => return Ok(Err(refused)),
    };
    let allowed = match (before.state, before.next()) {
        (OperationState::Running, NextStep::Go(allowed)) => {
            allowed.min(most.into()).min(PIECE_LIMIT)
        }
        _ => 0,
    };
    let done = do_next(session, &before, allowed).await?;
    operations::end_if_done(session, id).await?;
    let after = operations::operation(session, id).await?;
    Ok(after.map(|operation| Advance { done, operation }))
}

/// A dead letter whose turn it is, unless somebody removed it by hand.
struct Turn {
    place: i64,
    dead: i64,
    /// Its queue and ordering key.
    stays: Option<(i32, Option<String>)>,
}

async fn do_next(
    session: &mut Session<'_>,
    operation: &Operation,
    allowed: u64,
) -> sqlx::Result<u32> {
    let id = operation.id.number();
    let turns = turns(session, id, allowed).await?;
    let Some(last) = turns.last().map(|turn| turn.place) else { return Ok(0) };
    let (here, gone): (Vec<Turn>, Vec<Turn>) = turns.into_iter().partition(|it| it.stays.is_some());
    match operation.kind {
        OperationKind::Discard => discard(session, id, &here).await?,
        OperationKind::Replay { ids, .. } => replay(session, id, &here, ids).await?,
    }
    let places = |turns: &[Turn]| turns.iter().map(|turn| turn.place).collect::<Vec<_>>();
    let update = session
        .query(
            "WITH gone AS (
                 UPDATE {schema}.items SET state = 'left' WHERE operation = $1 AND place = ANY ($4)
             )
             UPDATE {schema}.operations
             SET done = done + $2, total = total - cardinality($4), refused = refused + cardinality($4), place = $3
             WHERE id = $1",
        )
        .bind(id)
        .bind(here.len() as i64)
        .bind(last)
        .bind(places(&gone));
    session.execute(update).await?;
    Ok(here.len() as u32)
}

/// The next items, whose dead letters are locked in the order of their ids, which is that of the items.
async fn turns(session: &mut Session<'_>, operation: i64, limit: u64) -> sqlx::Result<Vec<Turn>> {
    let select = session
        .query(
            "SELECT i.place, i.dead FROM {schema}.items AS i
             WHERE i.operation = $1 AND i.place > (SELECT o.place FROM {schema}.operations AS o WHERE o.id = $1)
             ORDER BY i.place LIMIT $2",
        )
        .bind(operation)
        .bind(limit.cast_signed());
    let mut turns = Vec::new();
    for row in session.all(select).await? {
        turns.push(Turn { place: row.try_get(0)?, dead: row.try_get(1)?, stays: None });
    }
    let lock = session
        .query(
            "SELECT d.id, d.queue,
                    (SELECT m.ordering_key FROM {schema}.messages AS m WHERE m.seq = d.seq)
             FROM {schema}.dead AS d WHERE d.id = ANY ($1) AND d.operation = $2 ORDER BY d.id FOR UPDATE OF d",
        )
        .bind(turns.iter().map(|turn| turn.dead).collect::<Vec<_>>())
        .bind(operation);
    let mut found = BTreeMap::new();
    for row in session.all(lock).await? {
        found.insert(row.try_get::<i64, _>(0)?, (row.try_get(1)?, row.try_get(2)?));
    }
    for turn in &mut turns {
        turn.stays = found.remove(&turn.dead);
    }
    Ok(turns)
}

async fn discard(session: &mut Session<'_>, operation: i64, turns: &[Turn]) -> sqlx::Result<()> {
    let delete = session
        .query(&format!(
            "DELETE FROM {{schema}}.dead AS d WHERE d.id = ANY ($1) RETURNING {REMOVED}"
        ))
        .bind(turns.iter().map(|turn| turn.dead).collect::<Vec<_>>());
    let rows = session.all(delete).await?;
    removed(session, &rows).await?;
    let state = session
        .query("UPDATE {schema}.items SET state = 'discarded' WHERE operation = $1 AND place = ANY ($2)")
        .bind(operation)
        .bind(turns.iter().map(|turn| turn.place).collect::<Vec<_>>());
    session.execute(state).await.map(drop)
}

/// Queues messages as a new generation; those with an ordering key join at its end.
async fn replay(
    session: &mut Session<'_>,
    operation: i64,
    turns: &[Turn],
    ids: ReplayIds,
) -> sqlx::Result<()> {
    let dead: Vec<i64> = turns.iter().map(|turn| turn.dead).collect();
    if ids == ReplayIds::New {
        rename(session, dead.clone()).await?;
    }
    let stays = || turns.iter().filter_map(|turn| turn.stays.as_ref());
    let keys: BTreeSet<(i32, String)> =
        stays().filter_map(|(queue, key)| Some((*queue, key.clone()?))).collect();
    let (queues, keys): (Vec<i32>, Vec<String>) = keys.into_iter().unzip();
    let database = session.database;
    let mut free = send::hold(database, session.connection(), queues, keys).await?;
    let keys: Vec<Option<String>> = stays().map(|(_, key)| key.clone()).collect();
    let blocked: Vec<bool> = stays().map(|it| is_blocked(it, &mut free)).collect();
    for (queue, _) in stays() {
        session.wake(*queue);
    }
    let places: Vec<i64> = turns.iter().map(|turn| turn.place).collect();
    let send = session.query(SEND).bind(operation).bind(places).bind(dead).bind(blocked).bind(keys);
    for row in session.all(send).await? {
        session.causes.left(row.try_get(0)?, row.try_get::<i32, _>(1)?.into());
    }
    Ok(())
}

/// Whether a message waits for an earlier one of its key.
fn is_blocked((queue, key): &(i32, Option<String>), free: &mut HashSet<(i32, String)>) -> bool {
    key.as_ref().is_some_and(|key| !free.remove(&(*queue, key.clone())))
}

/// $1 operation, $2 places, $3 dead letters, $4 whether each waits for an earlier message of its key, $5 that key.
const SEND: &str = "WITH chosen AS MATERIALIZED (
        SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::boolean[], $5::text[]) AS chosen (place, id, blocked, key)
    ), gone AS MATERIALIZED (
        DELETE FROM {schema}.dead AS d USING chosen WHERE d.id = chosen.id
        RETURNING d.id, d.queue, d.seq, d.bytes, d.replayed + 1 AS replayed, d.detailed, d.cause,
                  chosen.place, chosen.blocked, chosen.key
    ), blocked AS (
        INSERT INTO {schema}.blocked
            (queue, key, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
        SELECT queue, key, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), seq, bytes, 0, 0, 0,
               replayed, detailed
        FROM gone WHERE blocked ORDER BY id
    ), returned AS (
        INSERT INTO {schema}.ready (queue, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
        SELECT queue, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), seq, bytes, 0, 0, 0,
               replayed, detailed
        FROM gone WHERE NOT blocked
    ), noted AS (
        UPDATE {schema}.items AS i
        SET state = 'in flight',
            away = CASE WHEN (SELECT q.remote FROM {schema}.queues AS q WHERE q.id = gone.queue)
                        THEN (SELECT m.id FROM {schema}.messages AS m WHERE m.seq = gone.seq) END
        FROM gone WHERE i.operation = $1 AND i.place = gone.place
    )
    SELECT cause, bytes FROM gone";

/// Gives messages new ids; the old one becomes the causation id.
async fn rename(session: &mut Session<'_>, dead: Vec<i64>) -> sqlx::Result<()> {
    let now = session.now();
    let ids: Vec<String> =
        dead.iter().map(|_| MessageId::generate(now, &mut rand::rng()).to_string()).collect();
    let rename = session
        .query(
            "UPDATE {schema}.messages AS m SET id = chosen.new_id, causation_id = m.id
             FROM unnest($1::bigint[], $2::text[]) AS chosen (dead, new_id), {schema}.dead AS d
             WHERE d.id = chosen.dead AND m.seq = d.seq",
        )
        .bind(dead)
        .bind(ids);
    session.execute(rename).await.map(drop)
}
