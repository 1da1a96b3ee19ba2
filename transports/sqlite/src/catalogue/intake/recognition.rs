//! Recognizes dead letters that a broker delivers again.
//!
//! A letter with a lasting id is recognized by it. A letter without one is recognized by its content, but only if the
//! broker says that it was delivered before, and only while the broker should still have the letter that was taken in.
//! As many equal letters are then redelivered as were taken in, and each stands for one of them. An equal letter may be
//! the same one or another once the broker was told to remove the first, if the dead letter that it became is gone, or
//! if it comes twice in one session, as it does after a node of a cluster was unreachable. It is kept and marked then.
//! Each row of `bezoar_taken` stands for one letter of the broker, so that neither of two equal letters is lost.

use bezoar_core::{DeadLetter, DeadLetterId, QueueName, Recognition, catalogue::CatalogueError};
use rusqlite::{Connection, OptionalExtension, Row, params};

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
    if let Some(known) = equal(connection, STORED, [queue, digest, feed])? {
        connection
            .prepare_cached(
                "UPDATE bezoar_taken SET letter = ?4, session = ?5, at = ?6
                 WHERE queue = ?1 AND letter = ?2 AND digest = ?3",
            )?
            .execute([queue, known.letter, digest, id, feed, session.now_millis()])?;
        return Ok(Known::Yes);
    }
    let Some(perhaps) = equal(connection, ANY, [queue, digest, feed])? else {
        return Ok(Known::No);
    };
    if perhaps.session != feed {
        // A doubt is raised once.
        connection
            .prepare_cached(
                "DELETE FROM bezoar_taken WHERE queue = ?1 AND letter = ?2 AND digest = ?3",
            )?
            .execute([queue, perhaps.letter, digest])?;
    }
    Ok(Known::Perhaps(perhaps.dead))
}

/// A letter with the same content.
struct Equal {
    letter: i64,
    session: i64,
    dead: i64,
}

/// Finds one that another session took in, that the broker was not told to remove, and whose dead letter is here.
const STORED: &str = "SELECT letter, session, dead
    FROM bezoar_taken INDEXED BY bezoar_taken_by_content
    WHERE queue = ?1 AND digest = ?2 AND removing = 0 AND session IS NOT NULL AND session <> ?3
      AND EXISTS (SELECT 1 FROM bezoar_dead WHERE id = dead)
    LIMIT 1";

/// Finds any, those of other sessions first. Each part seeks one row: a sender may repeat itself for weeks.
const ANY: &str = "SELECT * FROM (SELECT letter, session, dead
        FROM bezoar_taken INDEXED BY bezoar_taken_by_content
        WHERE queue = ?1 AND digest = ?2 AND removing = 0 AND session IS NOT NULL AND session <> ?3 LIMIT 1)
    UNION ALL SELECT * FROM (SELECT letter, session, dead
        FROM bezoar_taken INDEXED BY bezoar_taken_by_content
        WHERE queue = ?1 AND digest = ?2 AND removing = 1 AND session < ?3 LIMIT 1)
    UNION ALL SELECT * FROM (SELECT letter, session, dead
        FROM bezoar_taken INDEXED BY bezoar_taken_by_content
        WHERE queue = ?1 AND digest = ?2 AND removing = 1 AND session > ?3 LIMIT 1)
    UNION ALL SELECT * FROM (SELECT letter, session, dead
        FROM bezoar_taken INDEXED BY bezoar_taken_by_content
        WHERE queue = ?1 AND digest = ?2 AND removing IN (0, 1) AND session = ?3 LIMIT 1)
    LIMIT 1";

fn equal(
    connection: &Connection,
    sql: &'static str,
    content: [i64; 3],
) -> rusqlite::Result<Option<Equal>> {
    let read =
        |row: &Row<'_>| Ok(Equal { letter: row.get(0)?, session: row.get(1)?, dead: row.get(2)? });
    connection.prepare_cached(sql)?.query_row(content, read).optional()
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

/// Notes that the broker is told to remove letters. Those with a lasting id need no note.
pub(crate) fn removing(
    session: &mut Session,
    connection: &Connection,
    queue: &QueueName,
    letters: &[DeadLetterId],
) -> Found<()> {
    let queue = session.queue(connection, queue)?.unwrap_or(i64::MIN);
    for id in letters {
        let place = [queue, id.number()];
        let noted = connection
            .prepare_cached(
                "UPDATE bezoar_taken SET removing = 1
                 WHERE queue = ?1 AND letter = ?2 AND session IS NOT NULL",
            )?
            .execute(place)?;
        let is_known = noted > 0
            || connection
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM bezoar_taken WHERE queue = ?1 AND letter = ?2)",
                )?
                .query_row(place, |row| row.get(0))?;
        if !is_known {
            return Ok(Err(CatalogueError::TakenOver(*id)));
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading all letters of a sender that repeats itself would keep everybody else waiting.
    #[test]
    fn equal_letters_are_found_by_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        let meta = "CREATE TABLE bezoar_meta (name TEXT PRIMARY KEY, value ANY)";
        for script in [meta].iter().chain(&crate::database::MIGRATIONS) {
            connection.execute_batch(script).unwrap();
        }
        for sql in [STORED, ANY] {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps: Vec<String> =
                plan.query_map([1, 2, 3], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
            let reads: Vec<_> = steps.iter().filter(|step| step.contains("bezoar_taken")).collect();
            assert!(!reads.is_empty());
            for step in reads {
                assert!(step.contains("(queue=? AND digest=? AND removing=?"), "{steps:?}");
            }
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
        }
    }
}
