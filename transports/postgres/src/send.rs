//! Stores messages.
//!
//! Most messages are fresh and are stored by one statement. Ids that are accepted once and ordering keys are settled
//! first, in the same transaction: each takes its row locks in one order, so that senders never deadlock.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use bezoar_core::{Message, Outgoing, TransportError, to_millis};
use rand::RngExt;
use sqlx::{PgConnection, Row};

use crate::{
    columns::{LedgerColumns, MessageColumns, ordering_key},
    database::{Database, Scope},
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
    let all = messages.iter().map(|(queue, outgoing)| (*queue, &outgoing.message));
    let columns = MessageColumns::of(all.clone());
    let query = match messages.iter().all(|(_, it)| is_fresh(it)) {
        true => columns.bind(database.query(&database.sql.insert_fresh)),
        false => {
            let free = hold_keys(database, connection, messages).await?;
            let keys: Vec<_> = all.clone().map(|(_, message)| ordering_key(message)).collect();
            let delays: Vec<_> = messages.iter().map(|(_, it)| to_millis(it.delay)).collect();
            let query = columns.bind(database.query(&database.sql.insert_all));
            let ledgers = LedgerColumns::of(all.map(|(_, message)| message));
            ledgers.bind(query.bind(keys).bind(delays)).bind(blocked(messages, free))
        }
    };
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

/// Which messages wait for an earlier one of their key: the first message of a key in `free` can be claimed, every other
/// message with a key waits.
fn blocked(messages: &[&Addressed], mut free: HashSet<(i32, String)>) -> Vec<bool> {
    let waits = |(queue, outgoing): &&Addressed| {
        ordering_key(&outgoing.message).is_some_and(|key| !free.remove(&(*queue, key)))
    };
    messages.iter().map(waits).collect()
}
