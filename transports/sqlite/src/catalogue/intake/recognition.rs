//! Recognizes dead letters that a broker delivers again.
//!
//! A letter with a lasting id is recognized by it. A letter without one is recognized by its content, but only if the
//! broker says that it was delivered before, and only while the broker certainly still has the letter that was taken
//! in. Then as many equal letters are redelivered as were taken in, and each stands for one of them. Once the broker
//! was told to remove a letter, an equal one may be the same or another: it is kept and marked. Each row of
//! `bezoar_taken` stands for one letter of the broker, so that neither of two equal letters is lost.

use bezoar_core::{DeadLetter, DeadLetterId, QueueName, Recognition, catalogue::CatalogueError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{catalogue::Found, session::Session};

/// Whether a letter was taken in before.
pub(crate) enum Known {
    No,
    Yes,
    /// It may be the letter that became this dead letter.
    Perhaps(i64),
}

/// Checks whether a letter was taken in before. A letter that is recognized by its content belongs to this session
/// from now on.
pub(crate) fn recognize(
    session: &Session,
    connection: &Connection,
    queue: i64,
    letter: &DeadLetter,
) -> rusqlite::Result<Known> {
    match letter.recognition {
        Recognition::Content { redelivered: false, .. } => Ok(Known::No),
        Recognition::Content { session: feed, .. } => {
            recognize_content(session, connection, queue, (letter, feed.cast_signed()))
        }
        _ => recognize_id(connection, queue, letter),
    }
}

fn recognize_id(
    connection: &Connection,
    queue: i64,
    letter: &DeadLetter,
) -> rusqlite::Result<Known> {
    let is_known = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM bezoar_taken WHERE queue = ?1 AND letter = ?2 AND digest = ?3)",
        )?
        .query_row([queue, letter.id.number(), letter.digest().cast_signed()], |row| row.get(0))?;
    Ok(if is_known { Known::Yes } else { Known::No })
}

fn recognize_content(
    session: &Session,
    connection: &Connection,
    queue: i64,
    (letter, feed): (&DeadLetter, i64),
) -> rusqlite::Result<Known> {
    let (id, digest) = (letter.id.number(), letter.digest().cast_signed());
    let is_known = connection
        .prepare_cached(
            "UPDATE bezoar_taken SET letter = ?4, session = ?3, at = ?5
             WHERE (queue, letter, digest) =
                 (SELECT queue, letter, digest FROM bezoar_taken INDEXED BY bezoar_taken_by_content
                  WHERE queue = ?1 AND digest = ?2 AND session IS NOT NULL AND session <> ?3 AND removing = 0
                  LIMIT 1)",
        )?
        .execute([queue, digest, feed, id, session.now_millis()])?;
    if is_known > 0 {
        return Ok(Known::Yes);
    }
    // A possible copy is reported once: its row is removed.
    let perhaps: Option<Option<i64>> = connection
        .prepare_cached(
            "DELETE FROM bezoar_taken WHERE (queue, letter, digest) =
                 (SELECT queue, letter, digest FROM bezoar_taken INDEXED BY bezoar_taken_by_content
                  WHERE queue = ?1 AND digest = ?2 AND session IS NOT NULL AND session <> ?3 AND removing = 1
                  ORDER BY at DESC LIMIT 1)
             RETURNING dead",
        )?
        .query_row([queue, digest, feed], |row| row.get(0))
        .optional()?;
    Ok(perhaps.flatten().map_or(Known::No, Known::Perhaps))
}

/// Remembers that a letter was taken in as a dead letter, and marks the dead letter if it may be a
/// copy.
pub(crate) fn remember(
    session: &Session,
    connection: &Connection,
    queue: i64,
    (letter, dead): (&DeadLetter, i64),
    copy_of: Option<i64>,
) -> rusqlite::Result<()> {
    let feed = match letter.recognition {
        Recognition::Content { session, .. } => Some(session.cast_signed()),
        _ => None,
    };
    let digest = letter.digest().cast_signed();
    connection
        .prepare_cached(
            "INSERT INTO bezoar_taken (queue, letter, digest, at, session, dead)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![queue, letter.id.number(), digest, session.now_millis(), feed, dead])?;
    if let Some(original) = copy_of {
        connection
            .prepare_cached("UPDATE bezoar_dead SET copy_of = ?2 WHERE id = ?1")?
            .execute([dead, original])?;
    }
    Ok(())
}

/// Records that the broker is about to be told to remove letters.
pub(crate) fn removing(
    session: &mut Session,
    connection: &Connection,
    queue: &QueueName,
    letters: &[DeadLetterId],
) -> Found<()> {
    let queue = session.queue(connection, queue)?.unwrap_or(i64::MIN);
    for id in letters {
        let noted = connection
            .prepare_cached(
                "UPDATE bezoar_taken SET removing = 1
                 WHERE queue = ?1 AND letter = ?2 AND session IS NOT NULL",
            )?
            .execute([queue, id.number()])?;
        if noted == 0 {
            return Ok(Err(CatalogueError::TakenOver(*id)));
        }
    }
    Ok(Ok(()))
}
