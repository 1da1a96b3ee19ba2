//! Dead letters from brokers, and the outcomes of those replayed to them.

pub(crate) mod announced;
pub(crate) mod recognition;

use std::time::Duration;

use bezoar_core::{
    DeadLetter, ErrorKind, MessageId, QueueName, Reason, catalogue::OperationId, millis, to_millis,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use self::recognition::{Known, recognize};

use crate::{
    catalogue::{
        Found,
        dead_letters::{
            arrival::{Arrival, Dying},
            edit::counts,
            import, record,
        },
    },
    database::used_bytes,
    error::error,
    row,
    session::Session,
};

/// How long letters that were taken in are remembered, and how many old entries are removed at a time.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const FORGOTTEN_AT_ONCE: i64 = 1_000;

/// Registers a queue of a broker, and returns its number.
pub(crate) fn adopt(
    session: &mut Session,
    connection: &Connection,
    name: &QueueName,
) -> rusqlite::Result<i64> {
    let queue = import::queue(session, connection, name)?;
    connection
        .prepare_cached("UPDATE bezoar_queues SET remote = 1 WHERE id = ?1 AND remote = 0")?
        .execute([queue])?;
    Ok(queue)
}

/// Adds new letters and returns how many. Known letters take no space, so they can be removed from the broker
/// even when the store is full.
pub(crate) fn take_in(
    session: &mut Session,
    connection: &Connection,
    name: &QueueName,
    letters: &[DeadLetter],
    max_bytes: Option<u64>,
) -> Found<u64> {
    let queue = adopt(session, connection, name)?;
    forget(session, connection)?;
    let (mut added, mut bytes) = (0, 0);
    for letter in letters {
        let copy_of = match recognize(session, connection, queue, letter)? {
            Known::Yes => continue,
            Known::No => None,
            Known::Perhaps(dead) => Some(dead),
        };
        bytes += letter.message.body.len();
        if let Err(full) = has_room(connection, max_bytes, bytes)? {
            return Ok(Err(full));
        }
        let mut explained = letter.clone();
        // An announcement that nobody has claimed is that of this letter, even if an equal one was taken in before.
        let is_announced = *letter.reason.code() == Reason::REJECTED
            && announced::complete(connection, queue, &mut explained)?;
        if let Some(dead) = copy_of.filter(|_| !is_announced)
            && let Some(original) = record::dead_letter(connection, dead, record::NO_BODY)?
        {
            // What was announced was said of the first.
            (explained.reason, explained.message.ledger) =
                (original.reason, original.message.ledger);
        }
        let dead = add(session, connection, (name, queue), &explained)?;
        recognition::remember(session, connection, queue, (letter, dead), copy_of)?;
        added += 1;
    }
    Ok(Ok(added))
}

/// Checks that this many more bytes are within the store's size limit.
pub(crate) fn has_room(connection: &Connection, max_bytes: Option<u64>, bytes: usize) -> Found<()> {
    match max_bytes {
        Some(most) if used_bytes(connection)? + bytes as u64 > most => {
            let full = error(ErrorKind::Full, "take in").with_source(
                "the store has reached its configured size; replay, export or discard dead letters, or raise the limit",
            );
            Ok(Err(full.into()))
        }
        _ => Ok(Ok(())),
    }
}

/// Adds a letter, and returns its number.
fn add(
    session: &mut Session,
    connection: &Connection,
    (name, queue): (&QueueName, i64),
    letter: &DeadLetter,
) -> rusqlite::Result<i64> {
    let DeadLetter { message, reason, .. } = letter;
    let seq = row::insert_message(connection, message)?;
    row::insert_ledger(connection, seq, &message.ledger)?;
    let dying = Dying {
        place: (name, queue, seq),
        message,
        reason,
        counts: counts(message),
        tries: &[],
        died_at: Some(letter.at.as_millisecond()),
    };
    let (dead, cause) = session.insert_dead(connection, &dying, Arrival::Died)?;
    if let Some(replay) = message.ledger.replay {
        session.replays.came_back(connection, (replay, queue, &message.id), (dead, &cause))?;
    }
    Ok(dead)
}

/// Counts messages of a broker's queue that completed there.
pub(crate) fn completed(
    session: &mut Session,
    connection: &Connection,
    queue: &QueueName,
    messages: &[(OperationId, MessageId)],
) -> rusqlite::Result<()> {
    let Some(queue) = session.queue(connection, queue)? else { return Ok(()) };
    messages.iter().try_for_each(|(replay, id)| {
        session.replays.completed_away(connection, (*replay, queue), id)
    })
}

/// The time since which letters that were taken in or announced are remembered.
pub(crate) fn remembered_since(now: Timestamp) -> i64 {
    now.as_millisecond().saturating_sub(to_millis(REMEMBERED))
}

pub(crate) fn forget(session: &Session, connection: &Connection) -> rusqlite::Result<()> {
    let before = remembered_since(millis(session.now_millis()));
    connection
        .prepare_cached(
            "DELETE FROM bezoar_taken WHERE (queue, letter, digest) IN
             (SELECT queue, letter, digest FROM bezoar_taken WHERE at < ?1 LIMIT ?2)",
        )?
        .execute(params![before, FORGOTTEN_AT_ONCE])?;
    announced::forget(connection, before, FORGOTTEN_AT_ONCE)
}
