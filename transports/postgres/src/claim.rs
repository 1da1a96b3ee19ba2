//! Leases messages, and undoes a claim that nobody received.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc};

use bezoar_core::{
    Delivery, QueueName, Reason, Settlement, SubscribeOptions, TransportError,
    catalogue::OperationId, millis, to_millis,
};
use rand::RngExt;
use sqlx::{Row, postgres::PgRow};

use crate::{
    database::{Database, Scope},
    row,
    settle::{Queue, settle_leased},
    subscription::{lease_of, receipt},
    wakes::Wakes,
};

/// A claimed message with what its row said before, to undo the claim exactly.
#[derive(Debug)]
struct Claimed {
    delivery: Delivery,
    due_at: i64,
    /// The token of an expired lease. If the claim is undone, its holder can still settle.
    token: Option<i64>,
}

/// The result of a claim that took effect. If it is dropped with deliveries in it, their claim is undone.
#[derive(Debug)]
pub(crate) struct Found {
    claimed: Vec<Claimed>,
    /// How many malformed rows were set aside; there may be messages behind them.
    pub(crate) set_aside: usize,
    undo: Undo,
}

#[derive(Debug, Clone)]
struct Undo {
    database: Arc<Database>,
    wakes: Wakes,
    name: QueueName,
    queue: i32,
    token: i64,
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.claimed.is_empty()
    }

    /// The deliveries, which the receiver now has.
    pub(crate) fn hand_over(mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.claimed).into_iter().map(|it| it.delivery).collect()
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        // Without a runtime the process is about to end: then the leases expire by themselves.
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && !claimed.is_empty()
        {
            runtime.spawn(unclaim(self.undo.clone(), claimed));
        }
    }
}

/// Leases up to `max` messages and counts the acquisition of each. Malformed rows become dead letters.
pub(crate) async fn claim(
    database: &Arc<Database>,
    wakes: &Wakes,
    (name, queue): Queue<'_>,
    max: NonZeroU32,
    options: &SubscribeOptions,
) -> Result<Found, TransportError> {
    let token: i64 = rand::rng().random();
    let (database, wakes, name) = (database.clone(), wakes.clone(), name.clone());
    let undo = Undo { database, wakes, name, queue, token };
    let options = *options;
    // A task of its own, so that a claim whose receiver is gone is dropped with its answer, and so undone.
    let task = tokio::spawn(async move { claim_here(undo, max, options).await });
    task.await
        .unwrap_or_else(|_| Err(crate::error::error(bezoar_core::ErrorKind::Other, "receive")))
}

async fn claim_here(
    undo: Undo,
    max: NonZeroU32,
    options: SubscribeOptions,
) -> Result<Found, TransportError> {
    let (queue, token) = (undo.queue, undo.token);
    let database = undo.database.clone();
    let max_bytes = i64::try_from(options.max_bytes).unwrap_or(i64::MAX);
    let lease_ms = to_millis(options.lease);
    let rows = database
        .run_here("receive", Scope::Read, &move |database, connection| {
            let query = database.query(&database.sql.claim).bind(queue).bind(i64::from(max.get()));
            let query = query.bind(max_bytes).bind(lease_ms).bind(token);
            Box::pin(async move { query.fetch_all(connection).await })
        })
        .await?;
    let (mut claimed, mut malformed) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in &rows {
        let read = read(row, token).map_err(|source| crate::error::from_sqlx(&source, "receive"));
        match read? {
            (it, None) => claimed.push(it),
            (it, Some(reason)) => malformed.push((it.delivery, dead_letter(reason))),
        }
    }
    let mut found = Found { claimed, set_aside: malformed.len(), undo };
    if !malformed.is_empty() {
        let Undo { wakes, name, .. } = &found.undo;
        settle_leased(&database, wakes, (name, queue), malformed).await;
    }
    name_replays(&database, &mut found.claimed).await?;
    Ok(found)
}

/// Tells replayed messages which replay had sent them. Few messages are, so the claim itself does not ask.
async fn name_replays(database: &Database, claimed: &mut [Claimed]) -> Result<(), TransportError> {
    let replayed = claimed.iter().filter(|it| it.delivery.message.ledger.replayed > 0);
    let seqs: Vec<i64> = replayed.filter_map(|it| lease_of(&it.delivery)).map(|it| it.0).collect();
    if seqs.is_empty() {
        return Ok(());
    }
    let replays = database
        .run_here("receive", Scope::Read, &move |database, connection| {
            let query = database.query(&database.sql.replays).bind(seqs.clone());
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                let replay =
                    |row: &PgRow| Ok((row.try_get(0)?, OperationId::from_number(row.try_get(1)?)));
                rows.iter().map(replay).collect::<sqlx::Result<HashMap<i64, OperationId>>>()
            })
        })
        .await?;
    for it in claimed {
        let replay = lease_of(&it.delivery).and_then(|(seq, _)| replays.get(&seq).copied());
        if replay.is_some() {
            Arc::make_mut(&mut it.delivery.message).ledger.replay = replay;
        }
    }
    Ok(())
}

fn dead_letter(reason: Reason) -> Settlement {
    Settlement::DeadLetter { reason, tries: Vec::new() }
}

/// Reads a claimed row, and why it cannot be delivered.
fn read(row: &PgRow, token: i64) -> sqlx::Result<(Claimed, Option<Reason>)> {
    let (seq, until) = (row.try_get(0)?, row.try_get(3)?);
    let (message, integrity) = row::message(row, seq, 4)?;
    let delivery = Delivery::new(message, receipt(seq, token), Some(millis(until)));
    let claimed = Claimed { delivery, due_at: row.try_get(1)?, token: row.try_get(2)? };
    Ok((claimed, integrity.problem()))
}

/// Undoes a claim as if it had never happened. If that fails, the leases expire by themselves.
async fn unclaim(undo: Undo, claimed: Vec<Claimed>) {
    let seqs: Vec<i64> =
        claimed.iter().filter_map(|it| lease_of(&it.delivery)).map(|(seq, _)| seq).collect();
    let due: Vec<i64> = claimed.iter().map(|it| it.due_at).collect();
    let tokens: Vec<Option<i64>> = claimed.iter().map(|it| it.token).collect();
    let ours = undo.token;
    let undone = undo
        .database
        .run_here("receive", Scope::Write, &move |database, connection| {
            let query = database.query(&database.sql.unclaim);
            let query = query.bind(seqs.clone()).bind(due.clone()).bind(tokens.clone()).bind(ours);
            Box::pin(async move { query.execute(connection).await })
        })
        .await;
    if undone.is_ok() {
        undo.wakes.wake(undo.queue);
    }
}
