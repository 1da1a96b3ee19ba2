//! Imports dead letters from other stores.

use std::collections::{BTreeMap, HashMap};

use bezoar_core::{
    QueueName,
    catalogue::{AuditedAction, CatalogueError, DeadLetterRecord, DeadLetterState},
};
use sqlx::Row;

use super::arrival::{self, Arrival};
use crate::{
    catalogue::{Found, audit, causes::cause_changes::How, session::Session},
    row::without_nul,
};

/// A record with the stamp that identifies it.
type Stamped = (String, DeadLetterRecord);

/// Adds the dead letters whose stamp is new, and returns how many. A known stamp with other content is a conflict, and
/// nothing is imported. Creates missing queues, so that an export of one store can be imported into another.
pub(crate) async fn import(
    session: &mut Session<'_>,
    records: &[Stamped],
    action: &AuditedAction,
) -> Found<u64> {
    let new = match stamp(session, records).await? {
        Ok(new) => new,
        Err(conflict) => return Ok(Err(conflict)),
    };
    let mut queues = HashMap::new();
    for record in &new {
        let name = &record.entry.queue;
        if !queues.contains_key(name) {
            queues.insert(name, queue(session, name).await?);
        }
    }
    let arrivals: Vec<_> = new
        .iter()
        .map(|record| Arrival {
            queue: (&record.entry.queue, queues[&record.entry.queue]),
            message: &record.message,
            reason: &record.reason,
            died_at: record.entry.died_at.as_millisecond(),
            how: How::Died,
        })
        .collect();
    let ids = arrival::insert(session, &arrivals).await?;
    set_aside(session, ids.iter().map(|(id, _)| *id).zip(new.iter().copied()), action).await?;
    audit::append(session, action).await?;
    Ok(Ok(new.len() as u64))
}

/// Remembers the stamps in their order, so that two imports never wait for each other. Returns the records that are
/// new.
async fn stamp<'a>(
    session: &mut Session<'_>,
    records: &'a [Stamped],
) -> Found<Vec<&'a DeadLetterRecord>> {
    let digest = |record: &DeadLetterRecord| record.message.body_digest().cast_signed();
    let mut digests = BTreeMap::new();
    for (stamp, record) in records {
        digests.entry(without_nul(stamp.clone())).or_insert_with(|| digest(record));
    }
    let (stamps, values): (Vec<String>, Vec<i64>) = digests.clone().into_iter().unzip();
    let insert = session
        .query(
            "INSERT INTO {schema}.stamps (stamp, at, digest)
             SELECT stamp, $3, digest FROM unnest($1::text[], $2::bigint[]) AS sent (stamp, digest) ORDER BY stamp
             ON CONFLICT (stamp) DO NOTHING RETURNING stamp",
        )
        .bind(stamps.clone())
        .bind(values)
        .bind(session.now_millis());
    let mut unused = std::collections::HashSet::new();
    for row in session.all(insert).await? {
        unused.insert(row.try_get::<String, _>(0)?);
    }
    let known = session.query("SELECT stamp, digest FROM {schema}.stamps WHERE stamp = ANY ($1)");
    for row in session.all(known.bind(stamps)).await? {
        digests.insert(row.try_get(0)?, row.try_get(1)?);
    }
    let mut new = Vec::new();
    for (stamp, record) in records {
        let key = without_nul(stamp.clone());
        if digests.get(&key) != Some(&digest(record)) {
            let problem = format!(
                "another dead letter with the stamp {stamp:?} was imported before; nothing was imported"
            );
            return Ok(Err(CatalogueError::Conflict(problem)));
        }
        if unused.remove(&key) {
            new.push(record);
        }
    }
    Ok(Ok(new))
}

/// A letter that could not be replayed there cannot be replayed here; one in an unknown state needs approval.
async fn set_aside(
    session: &mut Session<'_>,
    imported: impl Iterator<Item = (i64, &DeadLetterRecord)>,
    action: &AuditedAction,
) -> sqlx::Result<()> {
    let (mut edited, mut unapproved) = (Vec::new(), Vec::new());
    for (id, record) in imported {
        match record.entry.state {
            DeadLetterState::Open | DeadLetterState::Held(_) => {}
            DeadLetterState::Edited => edited.push(id),
            _ => unapproved.push(id),
        }
    }
    if edited.is_empty() && unapproved.is_empty() {
        return Ok(());
    }
    let set_aside = session
        .query(
            "WITH edited AS (UPDATE {schema}.dead SET edited_as = 0 WHERE id = ANY ($1))
             UPDATE {schema}.dead SET unapproved = true, edited_by = $3 WHERE id = ANY ($2)",
        )
        .bind(edited)
        .bind(unapproved)
        .bind(action.actor.clone());
    session.execute(set_aside).await.map(drop)
}

/// The number of a queue, which is created if it is missing.
pub(crate) async fn queue(session: &mut Session<'_>, name: &QueueName) -> sqlx::Result<i32> {
    let find = |session: &Session<'_>| {
        session
            .query("SELECT id FROM {schema}.queues WHERE name = $1")
            .bind(name.as_str().to_owned())
    };
    let found = find(session);
    if let Some(row) = session.optional(found).await? {
        return row.try_get(0);
    }
    let add = session
        .query("INSERT INTO {schema}.queues (name) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(name.as_str().to_owned());
    session.execute(add).await?;
    let found = find(session);
    session.one(found).await?.try_get(0)
}
