//! Dead letters of brokers, and what becomes of those that are replayed to them.

pub(crate) mod announced;

use std::time::Duration;

use bezoar_core::{
    DeadLetter, MessageId, QueueName, Reason, catalogue::OperationId, millis, to_millis,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::{
    catalogue::dead_letters::{
        arrival::{Arrival, Dying},
        edit::counts,
        import,
    },
    row,
    session::Session,
};

/// For how long it is remembered what was taken in, and how many such memories are forgotten at a time.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const FORGOTTEN_AT_ONCE: i64 = 1_000;

/// Makes a queue of a broker known; its number.
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

/// Adds those that are new; how many.
pub(crate) fn take_in(
    session: &mut Session,
    connection: &Connection,
    name: &QueueName,
    letters: &[DeadLetter],
) -> rusqlite::Result<u64> {
    let queue = adopt(session, connection, name)?;
    forget(session, connection)?;
    let mut added = 0;
    for letter in letters {
        let is_new = connection
            .prepare_cached(
                "INSERT INTO bezoar_taken VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute([queue, letter.id.0, letter.digest().cast_signed(), session.now_millis()])?;
        if is_new == 1 {
            let mut letter = letter.clone();
            if *letter.reason.code() == Reason::REJECTED {
                announced::complete(connection, queue, &mut letter)?;
            }
            add(session, connection, (name, queue), &letter)?;
            added += 1;
        }
    }
    Ok(added)
}

fn add(
    session: &mut Session,
    connection: &Connection,
    (name, queue): (&QueueName, i64),
    letter: &DeadLetter,
) -> rusqlite::Result<()> {
    let DeadLetter { message, reason, .. } = letter;
    let seq = row::insert_message(connection, message)?;
    row::insert_ledger(connection, seq, &message.ledger)?;
    let dying =
        Dying { place: (name, queue, seq), message, reason, counts: counts(message), tries: &[] };
    let (dead, cause) = session.insert_dead(connection, &dying, Arrival::Died)?;
    let Some(replay) = message.ledger.replay else { return Ok(()) };
    session.replays.came_back(connection, (replay, &message.id), (dead, &cause))
}

/// Notes that messages are done which a broker was given back.
pub(crate) fn completed(
    session: &mut Session,
    connection: &Connection,
    messages: &[(OperationId, MessageId)],
) -> rusqlite::Result<()> {
    messages
        .iter()
        .try_for_each(|(replay, id)| session.replays.completed_away(connection, *replay, id))
}

/// Since when it is remembered what was taken in or announced.
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
