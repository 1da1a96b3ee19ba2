//! Dead letters from brokers, and the outcomes of those replayed to them.
//!
//! Letters of one queue are taken in by one transaction at a time, under an advisory lock: recognizing a letter must see
//! what others have just taken in.

pub(crate) mod announced;
pub(crate) mod recognition;

use std::{collections::HashSet, time::Duration};

use bezoar_core::{
    DeadLetter, ErrorKind, MessageId, QueueName, Reason, Recognition,
    catalogue::{CatalogueError, OperationId},
    to_millis,
};
use sqlx::Row;

use self::recognition::Known;
use super::{
    Found,
    causes::cause_changes::How,
    dead_letters::{
        arrival::{self, Arrival},
        import, record,
    },
    operations::outcomes,
    session::{Session, number},
};
use crate::error::error;

/// How long letters that were taken in are remembered, and how many old entries are removed at a time.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const FORGOTTEN_AT_ONCE: i64 = 1_000;

/// Registers a queue of a broker, and returns its number.
pub(crate) async fn adopt(session: &mut Session<'_>, name: &QueueName) -> sqlx::Result<i32> {
    let queue = import::queue(session, name).await?;
    let adopt = session
        .query("UPDATE {schema}.queues SET remote = true WHERE id = $1 AND NOT remote")
        .bind(queue);
    session.execute(adopt).await?;
    Ok(queue)
}

/// A letter that is new, with what is known about it.
struct NewLetter<'a> {
    letter: &'a DeadLetter,
    explained: DeadLetter,
    copy_of: Option<i64>,
}

/// Adds new letters and returns how many. Known letters take no space, so they can be removed from the broker even when
/// the store is full.
pub(crate) async fn take_in(
    session: &mut Session<'_>,
    name: &QueueName,
    letters: &[DeadLetter],
) -> Found<u64> {
    let queue = adopt(session, name).await?;
    session.lock(format!("intake {queue}")).await?;
    forget(session).await?;
    let mut known = recognition::known_by_id(session, queue, letters).await?;
    let (mut added, mut bytes, mut new) = (0, 0, Vec::new());
    for letter in letters {
        let copy_of = match recognize(session, (name, queue), letter, &mut known, &mut new).await? {
            Known::Yes => continue,
            Known::No => None,
            Known::Perhaps(dead) => Some(dead),
        };
        bytes += letter.message.body.len() as u64;
        let explained = explain(session, queue, letter, copy_of).await?;
        new.push(NewLetter { letter, explained, copy_of });
        added += 1;
    }
    if added > 0
        && let Err(full) = has_room(session, bytes).await?
    {
        return Ok(Err(full));
    }
    add(session, (name, queue), &mut new).await?;
    Ok(Ok(added))
}

/// Letters with a lasting id were looked up together. What is recognized by its content may be equal to a letter that
/// came just before it, so that one is stored first.
async fn recognize<'a>(
    session: &mut Session<'_>,
    place: (&QueueName, i32),
    letter: &'a DeadLetter,
    known: &mut HashSet<(i64, i64)>,
    new: &mut Vec<NewLetter<'a>>,
) -> sqlx::Result<Known> {
    match letter.recognition {
        Recognition::Content { redelivered: false, .. } => Ok(Known::No),
        Recognition::Content { session: feed, .. } => {
            add(session, place, new).await?;
            recognition::by_content(session, place.1, (letter, feed.cast_signed())).await
        }
        _ => match known.insert(recognition::identity(letter)) {
            true => Ok(Known::No),
            false => Ok(Known::Yes),
        },
    }
}

/// A letter with what was announced about it, or is known about the letter that it may be a copy of.
async fn explain(
    session: &mut Session<'_>,
    queue: i32,
    letter: &DeadLetter,
    copy_of: Option<i64>,
) -> sqlx::Result<DeadLetter> {
    let mut explained = letter.clone();
    // An announcement that nobody has claimed is that of this letter, even if an equal one was taken in before.
    let is_announced = *letter.reason.code() == Reason::REJECTED
        && announced::complete(session, queue, &mut explained).await?;
    if let Some(dead) = copy_of.filter(|_| !is_announced)
        && let Some(original) = record::dead_letter(session, dead, record::NO_BODY).await?
    {
        // What was announced was said of the first.
        (explained.reason, explained.message.ledger) = (original.reason, original.message.ledger);
    }
    Ok(explained)
}

/// Stores letters, and remembers that they were taken in.
async fn add(
    session: &mut Session<'_>,
    (name, queue): (&QueueName, i32),
    new: &mut Vec<NewLetter<'_>>,
) -> sqlx::Result<()> {
    let new = std::mem::take(new);
    let arrivals: Vec<_> = new
        .iter()
        .map(|it| Arrival {
            queue: (name, queue),
            message: &it.explained.message,
            reason: &it.explained.reason,
            died_at: it.letter.at.as_millisecond(),
            how: How::Died,
        })
        .collect();
    let inserted = arrival::insert(session, &arrivals).await?;
    let dead: Vec<i64> = inserted.iter().map(|(id, _)| *id).collect();
    let letters: Vec<_> = new.iter().map(|it| it.letter).collect();
    recognition::remember(session, queue, &letters, dead).await?;
    for (it, (dead, cause)) in new.iter().zip(&inserted) {
        if let Some(original) = it.copy_of {
            recognition::mark_copy(session, *dead, original).await?;
        }
        let message = &it.explained.message;
        if let Some(replay) = message.ledger.replay {
            outcomes::came_back(session, (replay, queue, &message.id), (*dead, cause)).await?;
        }
    }
    Ok(())
}

/// Checks that the bodies of dead letters, with this many more bytes, are within the limit.
pub(crate) async fn has_room(session: &mut Session<'_>, bytes: u64) -> Found<()> {
    let Some(most) = session.database.options.max_dead_letter_bytes else { return Ok(Ok(())) };
    let used = session.query(
        "SELECT ((SELECT coalesce(sum(bytes), 0) FROM {schema}.causes)
               + (SELECT coalesce(sum(bytes), 0) FROM {schema}.cause_changes))::bigint",
    );
    if number(&session.one(used).await?, 0)?.saturating_add(bytes) <= most {
        return Ok(Ok(()));
    }
    let full = error(ErrorKind::Full, "take in").with_source(
        "the dead letters have reached their configured size; replay, export or discard some, or raise the limit",
    );
    Ok(Err(CatalogueError::Store(full)))
}

/// Counts messages of a broker's queue that completed there.
pub(crate) async fn completed(
    session: &mut Session<'_>,
    queue: &QueueName,
    messages: &[(OperationId, MessageId)],
) -> sqlx::Result<()> {
    let find = session
        .query("SELECT id FROM {schema}.queues WHERE name = $1")
        .bind(queue.as_str().to_owned());
    let Some(row) = session.optional(find).await? else { return Ok(()) };
    let queue = row.try_get(0)?;
    for (replay, id) in messages {
        outcomes::completed_away(session, (*replay, queue), id).await?;
    }
    Ok(())
}

/// The time since which letters that were taken in or announced are remembered.
pub(crate) fn remembered_since(session: &Session<'_>) -> i64 {
    session.now_millis().saturating_sub(to_millis(REMEMBERED))
}

pub(crate) async fn forget(session: &mut Session<'_>) -> sqlx::Result<()> {
    for sql in [
        "DELETE FROM {schema}.taken WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM {schema}.taken WHERE at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))",
        "DELETE FROM {schema}.announced WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM {schema}.announced WHERE at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))",
    ] {
        let forget = session.query(sql).bind(remembered_since(session)).bind(FORGOTTEN_AT_ONCE);
        session.execute(forget).await?;
    }
    Ok(())
}
