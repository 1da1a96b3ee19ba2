//! Settles deliveries: a batch is at most three statements, one for each kind of settlement.
//!
//! A message with an ordering key that is completed or dead-lettered lets the next one of its key go. Such messages are
//! settled in a transaction that locks the key first, because a sender may be adding a message to it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bezoar_core::{
    Delivery, ErrorKind, Ledger, MAX_DELAY, OrderingKey, Settlement, TransportError, to_millis,
};
use sqlx::{PgConnection, Row};

use crate::{
    database::{Database, Scope},
    error::error,
    ledger_json,
    row::{count, without_nul},
    subscription::lease_of,
    wakes::Wakes,
};

/// What is settled in one call: each lease once.
#[derive(Debug, Default)]
struct Plan {
    complete: Vec<Held>,
    put_back: Vec<Held>,
    dead_letter: Vec<Held>,
}

/// A lease and what its message becomes.
#[derive(Debug)]
struct Held {
    seq: i64,
    token: i64,
    key: Option<OrderingKey>,
    failed: i32,
    released: i32,
    /// The details of the ledger, if they changed.
    details: Option<String>,
    delay_ms: i64,
    code: String,
    reason: String,
}

/// Settles deliveries; one result each, in order. What was begun is finished, also if this future is dropped.
pub(crate) async fn settle(
    database: &Arc<Database>,
    wakes: &Wakes,
    queue: i32,
    batch: Vec<(Delivery, Settlement)>,
) -> Vec<Result<(), TransportError>> {
    let (database, wakes, count) = (database.clone(), wakes.clone(), batch.len());
    let task = tokio::spawn(async move { settle_leased(&database, &wakes, queue, batch).await });
    let ended = |_| {
        let ended = || error(ErrorKind::OutcomeUnknown, "settle").with_source("the task ended");
        (0..count).map(|_| Err(ended())).collect()
    };
    task.await.unwrap_or_else(ended)
}

/// As [`settle`], in this task.
pub(crate) async fn settle_leased(
    database: &Database,
    wakes: &Wakes,
    queue: i32,
    batch: Vec<(Delivery, Settlement)>,
) -> Vec<Result<(), TransportError>> {
    let leases: Vec<_> = batch.iter().map(|(delivery, _)| lease_of(delivery)).collect();
    let plan = Plan::of(batch);
    let wakes_others = !plan.put_back.is_empty() || plan.keys().next().is_some();
    let outcomes = run(database, queue, plan).await;
    if wakes_others {
        wakes.wake(queue);
    }
    // A lease that is in a batch twice is settled once: the first time.
    let mut told = HashSet::new();
    let result = |lease: Option<(i64, i64)>| {
        let lost = || error(ErrorKind::LeaseLost, "settle");
        let lease = lease.filter(|lease| told.insert(*lease)).ok_or_else(lost)?;
        match outcomes.get(&lease) {
            Some(Ok(true)) => Ok(()),
            Some(Err(failed)) => Err(failed.again()),
            Some(Ok(false)) | None => Err(lost()),
        }
    };
    leases.into_iter().map(result).collect()
}

impl Plan {
    fn of(batch: Vec<(Delivery, Settlement)>) -> Self {
        let (mut plan, mut seen) = (Self::default(), HashSet::new());
        for (delivery, settlement) in batch {
            let Some(lease) = lease_of(&delivery) else { continue };
            if seen.insert(lease) {
                plan.add(lease, &delivery, settlement.within(MAX_DELAY));
            }
        }
        // Rows are locked in one order, so that two settlements never deadlock.
        for part in [&mut plan.complete, &mut plan.put_back, &mut plan.dead_letter] {
            part.sort_unstable_by_key(|held| held.seq);
        }
        plan
    }

    fn add(&mut self, (seq, token): (i64, i64), delivery: &Delivery, settlement: Settlement) {
        let message = &delivery.message;
        let mut after: Ledger = message.ledger.clone();
        settlement.record(&mut after);
        let changed = after.history() != message.ledger.history()
            || after.uncounted != message.ledger.uncounted;
        let mut held = Held {
            seq,
            token,
            key: message.ordering_key.clone(),
            failed: count(after.failed),
            released: count(after.released),
            details: changed.then(|| ledger_json::write(&after)).flatten(),
            delay_ms: 0,
            code: String::new(),
            reason: String::new(),
        };
        match settlement {
            Settlement::Complete => self.complete.push(held),
            Settlement::DeadLetter { reason, .. } => {
                held.code = without_nul(reason.code().as_str().to_owned());
                held.reason = without_nul(reason.to_string());
                self.dead_letter.push(held);
            }
            Settlement::Retry { after, .. }
            | Settlement::Release { after }
            | Settlement::Uncounted { after, .. } => {
                held.delay_ms = to_millis(after);
                self.put_back.push(held);
            }
            _ => self.put_back.push(held),
        }
    }

    /// The ordering keys of messages that leave the queue, and so let others go.
    fn keys(&self) -> impl Iterator<Item = &OrderingKey> {
        self.complete.iter().chain(&self.dead_letter).filter_map(|held| held.key.as_ref())
    }
}

type Outcomes = HashMap<(i64, i64), Result<bool, TransportError>>;

/// Runs each part of a plan, and tells for each lease whether it was ours.
async fn run(database: &Database, queue: i32, plan: Plan) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let parts = [
        (Part::Complete, plan.complete),
        (Part::PutBack, plan.put_back),
        (Part::DeadLetter, plan.dead_letter),
    ];
    for (part, all) in parts.into_iter().filter(|(_, all)| !all.is_empty()) {
        let held = Arc::new(all);
        let settled = run_part(database, queue, part, held.clone()).await;
        for Held { seq, token, .. } in held.iter() {
            let outcome = match &settled {
                Ok(settled) => Ok(settled.contains(seq)),
                Err(failed) => Err(failed.again()),
            };
            outcomes.insert((*seq, *token), outcome);
        }
    }
    outcomes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Complete,
    PutBack,
    DeadLetter,
}

/// The rows that were settled.
async fn run_part(
    database: &Database,
    queue: i32,
    part: Part,
    held: Arc<Vec<Held>>,
) -> Result<HashSet<i64>, TransportError> {
    let unblocks = part != Part::PutBack && held.iter().any(|held| held.key.is_some());
    let scope = if unblocks { Scope::Transaction } else { Scope::Write };
    database
        .run_here("settle", scope, &move |database, connection| {
            let held = held.clone();
            Box::pin(async move {
                match unblocks {
                    true => change_and_unblock(database, connection, queue, part, &held).await,
                    false => change(database, connection, queue, part, &held).await,
                }
            })
        })
        .await
}

/// As [`change`], and lets the next message of each ordering key go.
async fn change_and_unblock(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    part: Part,
    held: &[Held],
) -> sqlx::Result<HashSet<i64>> {
    let lock = database.query(&database.sql.lock_keys).bind(queue).bind(keys(held.iter()));
    lock.execute(&mut *connection).await?;
    let settled = change(database, connection, queue, part, held).await?;
    let done = keys(held.iter().filter(|held| settled.contains(&held.seq)));
    let unblock = database.query(&database.sql.unblock).bind(queue).bind(done);
    unblock.execute(connection).await?;
    Ok(settled)
}

fn keys<'a>(held: impl Iterator<Item = &'a Held>) -> Vec<String> {
    held.filter_map(|held| held.key.as_ref()).map(|key| key.as_str().to_owned()).collect()
}

/// Changes the rows whose tokens are still valid, and returns which.
async fn change(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    part: Part,
    held: &[Held],
) -> sqlx::Result<HashSet<i64>> {
    let sql = match part {
        Part::Complete => &database.sql.complete,
        Part::PutBack => &database.sql.put_back,
        Part::DeadLetter => &database.sql.dead_letter,
    };
    fn column<T>(held: &[Held], field: impl Fn(&Held) -> T) -> Vec<T> {
        held.iter().map(field).collect()
    }
    let mut query = database
        .query(sql)
        .bind(column(held, |it| it.seq))
        .bind(column(held, |it| it.token))
        .bind(queue);
    if part == Part::PutBack {
        query = query.bind(column(held, |it| it.delay_ms));
    }
    if part != Part::Complete {
        query = query
            .bind(column(held, |it| it.failed))
            .bind(column(held, |it| it.released))
            .bind(column(held, |it| it.details.clone()));
    }
    if part == Part::DeadLetter {
        query = query
            .bind(column(held, |it| it.code.clone()))
            .bind(column(held, |it| it.reason.clone()));
    }
    query.fetch_all(connection).await?.iter().map(|row| row.try_get(0)).collect()
}
