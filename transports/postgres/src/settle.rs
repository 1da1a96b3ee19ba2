//! Settles deliveries: a batch is at most three statements, one for each kind of settlement.
//!
//! A dead letter gets its cause here, and a replayed message its outcome, in the same transaction.
//!
//! A message with an ordering key that is completed or dead-lettered lets the next one of its key go. Such messages are
//! settled in a transaction that locks the key first, because a sender may be adding a message to it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bezoar_core::{
    CorrelationId, Delivery, ErrorKind, Ledger, MAX_DELAY, MessageId, OrderingKey, QueueName,
    Settlement, TransportError,
    catalogue::{CauseId, FINGERPRINT_VERSION, Fingerprint, StoreKey},
    to_millis,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{
    catalogue::causes::cause_changes::Group,
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
    /// Whether a replay had sent it, whose outcome this may be.
    replayed: bool,
    /// How it is grouped as a dead letter.
    died: Option<Died>,
}

/// What the catalogue has to know about a dead letter.
#[derive(Debug, Clone)]
struct Died {
    cause: CauseId,
    group: Group,
    message_id: MessageId,
    correlation_id: Option<CorrelationId>,
}

/// The name and the number of a queue.
pub(crate) type Queue<'a> = (&'a QueueName, i32);

/// Settles deliveries; one result each, in order. What was begun is finished, also if this future is dropped.
pub(crate) async fn settle(
    database: &Arc<Database>,
    wakes: &Wakes,
    (name, queue): Queue<'_>,
    batch: Vec<(Delivery, Settlement)>,
) -> Vec<Result<(), TransportError>> {
    let (database, wakes, count) = (database.clone(), wakes.clone(), batch.len());
    let name = name.clone();
    let task = tokio::spawn(async move {
        let has_dead = batch.iter().any(dies);
        let settled = settle_leased(&database, &wakes, (&name, queue), batch).await;
        if has_dead {
            database.add_up_changes().await;
        }
        settled
    });
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
    (name, queue): Queue<'_>,
    batch: Vec<(Delivery, Settlement)>,
) -> Vec<Result<(), TransportError>> {
    let leases: Vec<_> = batch.iter().map(|(delivery, _)| lease_of(delivery)).collect();
    let key = match batch.iter().any(dies) {
        true => database.store_key().await.map(Some),
        false => Ok(None),
    };
    let key = match key {
        Ok(key) => key,
        Err(failed) => return batch.iter().map(|_| Err(failed.again())).collect(),
    };
    let plan = Plan::of(batch, (name, queue), key);
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

fn dies((_, settlement): &(Delivery, Settlement)) -> bool {
    matches!(settlement, Settlement::DeadLetter { .. })
}

impl Plan {
    fn of(batch: Vec<(Delivery, Settlement)>, queue: Queue<'_>, key: Option<&StoreKey>) -> Self {
        let (mut plan, mut seen) = (Self::default(), HashSet::new());
        for (delivery, settlement) in batch {
            let Some(lease) = lease_of(&delivery) else { continue };
            if seen.insert(lease) {
                let settlement = settlement.within(MAX_DELAY);
                let died = key.and_then(|key| Died::of(queue, &delivery, &settlement, key));
                plan.add(lease, &delivery, settlement, died);
            }
        }
        // Rows are locked in one order, so that two settlements never deadlock.
        for part in [&mut plan.complete, &mut plan.put_back, &mut plan.dead_letter] {
            part.sort_unstable_by_key(|held| held.seq);
        }
        plan
    }

    fn add(
        &mut self,
        (seq, token): (i64, i64),
        delivery: &Delivery,
        settlement: Settlement,
        died: Option<Died>,
    ) {
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
            replayed: message.ledger.replayed > 0,
            died,
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

impl Died {
    fn of(
        (name, queue): Queue<'_>,
        delivery: &Delivery,
        settlement: &Settlement,
        key: &StoreKey,
    ) -> Option<Self> {
        let Settlement::DeadLetter { reason, tries } = settlement else { return None };
        let message = &delivery.message;
        let print = Fingerprint::of(name, message, tries, reason);
        Some(Self {
            cause: print.cause(key),
            group: Group::of(queue, &print),
            message_id: message.id.clone(),
            correlation_id: message.correlation_id.clone(),
        })
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
    let leaves = part != Part::PutBack;
    let several = leaves && held.iter().any(|held| held.key.is_some() || held.replayed);
    let scope = if several { Scope::Transaction } else { Scope::Write };
    database
        .run_here("settle", scope, &move |database, connection| {
            let held = held.clone();
            Box::pin(async move {
                match several {
                    true => change_and_follow(database, connection, queue, part, &held).await,
                    false => Ok(change(database, connection, queue, part, &held)
                        .await?
                        .into_keys()
                        .collect()),
                }
            })
        })
        .await
}

/// As [`change`], lets the next message of each ordering key go, and records the outcomes of replays.
async fn change_and_follow(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    part: Part,
    held: &[Held],
) -> sqlx::Result<HashSet<i64>> {
    let locked = keys(held.iter());
    if !locked.is_empty() {
        let lock = database.query(&database.sql.lock_keys).bind(queue).bind(locked);
        lock.execute(&mut *connection).await?;
    }
    let settled = change(database, connection, queue, part, held).await?;
    let done = keys(held.iter().filter(|held| settled.contains_key(&held.seq)));
    if !done.is_empty() {
        let unblock = database.query(&database.sql.unblock).bind(queue).bind(done);
        unblock.execute(&mut *connection).await?;
    }
    record_outcomes(database, connection, part, held, &settled).await?;
    Ok(settled.into_keys().collect())
}

/// Records what became of messages that a replay had sent.
async fn record_outcomes(
    database: &Database,
    connection: &mut PgConnection,
    part: Part,
    held: &[Held],
    settled: &HashMap<i64, i64>,
) -> sqlx::Result<()> {
    let replayed = || held.iter().filter(|it| it.replayed && settled.contains_key(&it.seq));
    let seqs: Vec<i64> = replayed().map(|held| held.seq).collect();
    if seqs.is_empty() {
        return Ok(());
    }
    let query = match part {
        Part::DeadLetter => {
            let cause = |it: &Held| it.died.as_ref().map(|died| died.cause.as_str().to_owned());
            let dead: Vec<i64> = seqs.iter().filter_map(|seq| settled.get(seq).copied()).collect();
            let query = database.query(&database.sql.failed_again).bind(seqs).bind(dead);
            query.bind(replayed().map(cause).collect::<Vec<_>>())
        }
        Part::Complete | Part::PutBack => database.query(&database.sql.completed).bind(seqs),
    };
    query.execute(connection).await.map(drop)
}

fn keys<'a>(held: impl Iterator<Item = &'a Held>) -> Vec<String> {
    held.filter_map(|held| held.key.as_ref()).map(|key| key.as_str().to_owned()).collect()
}

/// Changes the rows whose tokens are still valid, and returns which, each with its dead letter if it has become one.
async fn change(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    part: Part,
    held: &[Held],
) -> sqlx::Result<HashMap<i64, i64>> {
    let sql = match part {
        Part::Complete => &database.sql.complete,
        Part::PutBack => &database.sql.put_back,
        Part::DeadLetter => &database.sql.dead_letter,
    };
    fn column<T>(held: &[Held], field: impl Fn(&Held) -> T) -> Vec<T> {
        held.iter().map(field).collect()
    }
    fn died<T>(held: &[Held], field: impl Fn(&Died) -> T) -> Vec<Option<T>> {
        held.iter().map(|it| it.died.as_ref().map(&field)).collect()
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
        let text = |it: &str| it.to_owned();
        query = query
            .bind(column(held, |it| it.code.clone()))
            .bind(column(held, |it| it.reason.clone()))
            .bind(died(held, |it| text(it.message_id.as_str())))
            .bind(column(held, |it| {
                it.died.as_ref()?.correlation_id.as_ref().map(|id| text(id.as_str()))
            }))
            .bind(died(held, |it| text(it.cause.as_str())))
            .bind(died(held, |it| it.group.message_type.clone()))
            .bind(died(held, |it| it.group.kind.clone()))
            .bind(died(held, |it| it.group.code.clone()))
            .bind(FINGERPRINT_VERSION.cast_signed());
    }
    let dead = |row: &PgRow| match part {
        Part::DeadLetter => row.try_get(1),
        Part::Complete | Part::PutBack => Ok(0),
    };
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, dead(row)?))).collect()
}
