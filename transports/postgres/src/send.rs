//! Stores messages.
//!
//! Most messages are fresh and are stored by one statement. Ids that are accepted once and ordering keys are settled
//! first, in the same transaction: each takes its row locks in one order, so that senders never deadlock.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use bezoar_core::{
    ContentType, CorrelationId, Message, MessageId, OrderingKey, Outgoing, TransportError,
    to_millis,
};
use rand::RngExt;
use sqlx::{PgConnection, Row};

use crate::{
    database::{Database, Scope},
    ledger_json,
    row::{count, headers_to_json},
};

/// A message and the number of its queue.
pub(crate) type Addressed = (i32, Outgoing);

/// What became of each message that was stored together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is stored.
    Now,
    /// The same message was accepted before.
    Before,
    /// Another message with its id was accepted before.
    Conflict,
}

/// Stores messages in one transaction; one result each, in order.
pub(crate) async fn store(
    database: &Database,
    messages: &Arc<Vec<Addressed>>,
) -> Result<Vec<Stored>, TransportError> {
    let several = messages.iter().any(|(_, it)| it.once.is_some() || has_key(it));
    let scope = if several { Scope::Transaction } else { Scope::Write };
    let messages = messages.clone();
    database
        .run_here("send", scope, &move |database, connection| {
            let messages = messages.clone();
            Box::pin(async move { store_on(database, connection, &messages).await })
        })
        .await
}

fn has_key(outgoing: &Outgoing) -> bool {
    outgoing.message.ordering_key.is_some()
}

async fn store_on(
    database: &Database,
    connection: &mut PgConnection,
    messages: &[Addressed],
) -> sqlx::Result<Vec<Stored>> {
    let accepted = remember(database, connection, messages).await?;
    let new: Vec<&Addressed> = messages
        .iter()
        .zip(&accepted)
        .filter(|(_, it)| **it == Accepted::New)
        .map(|(it, _)| it)
        .collect();
    insert(database, connection, &new).await?;
    let stored = |it| match it {
        Accepted::New => Stored::Now,
        Accepted::Same => Stored::Before,
        Accepted::Other => Stored::Conflict,
    };
    Ok(accepted.into_iter().map(stored).collect())
}

/// Whether a message was accepted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepted {
    New,
    Same,
    Other,
}

/// Remembers the ids of messages that are accepted once, and tells which of them were known.
async fn remember(
    database: &Database,
    connection: &mut PgConnection,
    messages: &[Addressed],
) -> sqlx::Result<Vec<Accepted>> {
    let mut firsts: HashMap<(i32, &str), usize> = HashMap::new();
    let (mut queues, mut ids, mut windows, mut digests) = (vec![], vec![], vec![], vec![]);
    for (place, (queue, outgoing)) in messages.iter().enumerate() {
        let Some(window) = outgoing.once else { continue };
        let id = outgoing.message.id.as_str();
        if let Entry::Vacant(first) = firsts.entry((*queue, id)) {
            first.insert(place);
            queues.push(*queue);
            ids.push(id.to_owned());
            windows.push(to_millis(window.min(bezoar_core::MAX_DELAY)));
            digests.push(outgoing.message.body_digest().cast_signed());
        }
    }
    if firsts.is_empty() {
        return Ok(vec![Accepted::New; messages.len()]);
    }
    let call: i64 = rand::rng().random();
    let query = database.query(&database.sql.remember_once);
    let rows = query.bind(queues).bind(ids).bind(windows).bind(digests).bind(call);
    let mut known = HashMap::new();
    for row in rows.fetch_all(connection).await? {
        let (queue, id): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
        known.insert((queue, id), (row.try_get::<i64, _>(2)?, row.try_get::<bool, _>(3)?));
    }
    let accepted = |(place, (queue, outgoing)): (usize, &Addressed)| {
        let Message { id, .. } = &outgoing.message;
        let first = outgoing.once.and_then(|_| firsts.get(&(*queue, id.as_str())));
        let (Some(first), Some((digest, is_new))) =
            (first, known.get(&(*queue, id.as_str().to_owned())))
        else {
            return Accepted::New;
        };
        match outgoing.message.body_digest().cast_signed() == *digest {
            true if *is_new && *first == place => Accepted::New,
            true => Accepted::Same,
            false => Accepted::Other,
        }
    };
    Ok(messages.iter().enumerate().map(accepted).collect())
}

async fn insert(
    database: &Database,
    connection: &mut PgConnection,
    messages: &[&Addressed],
) -> sqlx::Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(messages);
    let fresh = messages.iter().all(|(_, it)| is_fresh(it));
    let sql = if fresh { &database.sql.insert_fresh } else { &database.sql.insert_all };
    let mut query = database.query(sql);
    let free = match fresh {
        true => HashSet::new(),
        false => hold_keys(database, connection, messages).await?,
    };
    query = query
        .bind(columns.queues)
        .bind(columns.ids)
        .bind(columns.types)
        .bind(columns.correlation_ids)
        .bind(columns.causation_ids)
        .bind(columns.content_types)
        .bind(columns.headers)
        .bind(columns.times)
        .bind(columns.expiries)
        .bind(columns.bodies);
    if !fresh {
        let rest = Rest::of(messages, free);
        query = query
            .bind(rest.keys)
            .bind(rest.delays)
            .bind(rest.acquired)
            .bind(rest.failed)
            .bind(rest.released)
            .bind(rest.replayed)
            .bind(rest.details)
            .bind(rest.blocked);
    }
    query.execute(connection).await?;
    Ok(())
}

/// Whether a message can be stored with the defaults of a new one.
fn is_fresh(outgoing: &Outgoing) -> bool {
    outgoing.delay.is_zero() && !has_key(outgoing) && outgoing.message.ledger == Default::default()
}

/// Locks the ordering keys of messages, and returns those that had no message.
async fn hold_keys(
    database: &Database,
    connection: &mut PgConnection,
    messages: &[&Addressed],
) -> sqlx::Result<HashSet<(i32, String)>> {
    let keys = messages.iter().filter_map(|(queue, outgoing)| {
        Some((*queue, outgoing.message.ordering_key.as_ref()?.as_str().to_owned()))
    });
    let keys: HashSet<_> = keys.collect();
    let (queues, keys): (Vec<i32>, Vec<String>) = keys.into_iter().unzip();
    hold(database, connection, queues, keys).await
}

/// Locks ordering keys, and returns those that had no message.
pub(crate) async fn hold(
    database: &Database,
    connection: &mut PgConnection,
    queues: Vec<i32>,
    keys: Vec<String>,
) -> sqlx::Result<HashSet<(i32, String)>> {
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let held = database.query(&database.sql.hold_keys).bind(queues).bind(keys);
    let mut free = HashSet::new();
    for row in held.fetch_all(connection).await? {
        if row.try_get(2)? {
            free.insert((row.try_get(0)?, row.try_get(1)?));
        }
    }
    Ok(free)
}

/// The columns that every message has.
#[derive(Debug)]
struct Columns {
    queues: Vec<i32>,
    ids: Vec<String>,
    types: Vec<String>,
    correlation_ids: Vec<Option<String>>,
    causation_ids: Vec<Option<String>>,
    content_types: Vec<Option<String>>,
    headers: Vec<Option<String>>,
    times: Vec<i64>,
    expiries: Vec<Option<i64>>,
    bodies: Vec<Vec<u8>>,
}

impl Columns {
    fn of(messages: &[&Addressed]) -> Self {
        let all = || messages.iter().map(|(_, outgoing)| &outgoing.message);
        let text = |it: &str| it.to_owned();
        Self {
            queues: messages.iter().map(|(queue, _)| *queue).collect(),
            ids: all().map(|it| text(it.id.as_str())).collect(),
            types: all().map(|it| text(it.message_type.as_str())).collect(),
            correlation_ids: all()
                .map(|it| it.correlation_id.as_ref().map(CorrelationId::as_str).map(text))
                .collect(),
            causation_ids: all()
                .map(|it| it.causation_id.as_ref().map(MessageId::as_str).map(text))
                .collect(),
            content_types: all()
                .map(|it| it.content_type.as_ref().map(ContentType::as_str).map(text))
                .collect(),
            headers: all().map(|it| headers_to_json(&it.headers)).collect(),
            times: all().map(|it| it.time.as_millisecond()).collect(),
            expiries: all().map(|it| it.expires_at.map(|at| at.as_millisecond())).collect(),
            bodies: all().map(|it| it.body.reveal().to_vec()).collect(),
        }
    }
}

/// The columns that differ from their defaults in few messages.
#[derive(Debug)]
struct Rest {
    keys: Vec<Option<String>>,
    delays: Vec<i64>,
    acquired: Vec<i32>,
    failed: Vec<i32>,
    released: Vec<i32>,
    replayed: Vec<i32>,
    details: Vec<Option<String>>,
    blocked: Vec<bool>,
}

impl Rest {
    /// The first message of a key in `free` can be claimed, every other message with a key waits.
    fn of(messages: &[&Addressed], mut free: HashSet<(i32, String)>) -> Self {
        let all = || messages.iter().map(|(_, outgoing)| &outgoing.message);
        let ledgers = || all().map(|it| &it.ledger);
        let key =
            |it: &Message| it.ordering_key.as_ref().map(OrderingKey::as_str).map(str::to_owned);
        let blocked = messages.iter().map(|(queue, outgoing)| {
            key(&outgoing.message).is_some_and(|key| !free.remove(&(*queue, key)))
        });
        Self {
            blocked: blocked.collect(),
            keys: all().map(key).collect(),
            delays: messages.iter().map(|(_, it)| to_millis(it.delay)).collect(),
            acquired: ledgers().map(|it| count(it.acquired)).collect(),
            failed: ledgers().map(|it| count(it.failed)).collect(),
            released: ledgers().map(|it| count(it.released)).collect(),
            replayed: ledgers().map(|it| count(it.replayed)).collect(),
            details: ledgers().map(ledger_json::write).collect(),
        }
    }
}
