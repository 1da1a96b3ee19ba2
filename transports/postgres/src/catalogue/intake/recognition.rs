//! Recognizes dead letters that a broker delivers again.
//!
//! A letter with a lasting id is recognized by it. A letter without one is recognized by its content, but only if the
//! broker says that it was delivered before, and only while the broker should still have the letter that was taken in. As
//! many equal letters are then redelivered as were taken in, and each stands for one of them. An equal letter may be the
//! same one or another once the broker was told to remove the first, if the dead letter that it became is gone, or if it
//! comes twice in one session. It is kept and marked then. Each row of `taken` stands for one letter of the broker, so
//! that neither of two equal letters is lost.

use std::collections::HashSet;

use bezoar_core::{DeadLetter, DeadLetterId, QueueName, Recognition, catalogue::CatalogueError};
use sqlx::Row;

use crate::catalogue::{Found, session::Session};

/// Whether a letter was taken in before.
pub(crate) enum Known {
    No,
    Yes,
    /// It may be the letter that became this dead letter.
    Perhaps(i64),
}

/// The id and the digest of a letter.
pub(crate) fn identity(letter: &DeadLetter) -> (i64, i64) {
    (letter.id.number(), letter.digest().cast_signed())
}

/// Those of the letters that were taken in before, by their ids and digests.
pub(crate) async fn known_by_id(
    session: &mut Session<'_>,
    queue: i32,
    letters: &[DeadLetter],
) -> sqlx::Result<HashSet<(i64, i64)>> {
    let (ids, digests): (Vec<i64>, Vec<i64>) = letters.iter().map(identity).unzip();
    let select = session
        .query(
            "SELECT letter, digest FROM {schema}.taken
             WHERE queue = $1 AND (letter, digest) IN (SELECT * FROM unnest($2::bigint[], $3::bigint[]))",
        )
        .bind(queue)
        .bind(ids)
        .bind(digests);
    let rows = session.all(select).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Checks whether a letter that was redelivered was taken in before. One that is recognized belongs to this session from
/// now on.
pub(crate) async fn by_content(
    session: &mut Session<'_>,
    queue: i32,
    (letter, feed): (&DeadLetter, i64),
) -> sqlx::Result<Known> {
    let (id, digest) = identity(letter);
    if let Some(known) = equal(session, STORED, queue, [digest, feed]).await? {
        let update = session
            .query(
                "UPDATE {schema}.taken SET letter = $4, session = $5, at = $6
                 WHERE queue = $1 AND letter = $2 AND digest = $3",
            )
            .bind(queue)
            .bind(known.letter)
            .bind(digest)
            .bind(id)
            .bind(feed)
            .bind(session.now_millis());
        session.execute(update).await?;
        return Ok(Known::Yes);
    }
    let Some(perhaps) = equal(session, ANY, queue, [digest, feed]).await? else {
        return Ok(Known::No);
    };
    if perhaps.session != feed {
        // A doubt is raised once.
        let delete = session
            .query("DELETE FROM {schema}.taken WHERE queue = $1 AND letter = $2 AND digest = $3")
            .bind(queue)
            .bind(perhaps.letter)
            .bind(digest);
        session.execute(delete).await?;
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
const STORED: &str = "SELECT letter, session, dead FROM {schema}.taken AS t
    WHERE queue = $1 AND digest = $2 AND NOT removing AND session IS NOT NULL AND session <> $3
      AND EXISTS (SELECT 1 FROM {schema}.dead AS d WHERE d.id = t.dead)
    LIMIT 1";

/// Finds any, those of other sessions first. Each part seeks one row: a sender may repeat itself for weeks.
const ANY: &str = "(SELECT letter, session, dead, 1 AS part FROM {schema}.taken
        WHERE queue = $1 AND digest = $2 AND NOT removing AND session IS NOT NULL AND session <> $3 LIMIT 1)
    UNION ALL (SELECT letter, session, dead, 2 FROM {schema}.taken
        WHERE queue = $1 AND digest = $2 AND removing AND session < $3 LIMIT 1)
    UNION ALL (SELECT letter, session, dead, 3 FROM {schema}.taken
        WHERE queue = $1 AND digest = $2 AND removing AND session > $3 LIMIT 1)
    UNION ALL (SELECT letter, session, dead, 4 FROM {schema}.taken
        WHERE queue = $1 AND digest = $2 AND session = $3 LIMIT 1)
    ORDER BY part LIMIT 1";

async fn equal(
    session: &mut Session<'_>,
    sql: &str,
    queue: i32,
    [digest, feed]: [i64; 2],
) -> sqlx::Result<Option<Equal>> {
    let select = session.query(sql).bind(queue).bind(digest).bind(feed);
    let Some(row) = session.optional(select).await? else { return Ok(None) };
    Ok(Some(Equal { letter: row.try_get(0)?, session: row.try_get(1)?, dead: row.try_get(2)? }))
}

/// Remembers that letters were taken in as dead letters.
pub(crate) async fn remember(
    session: &mut Session<'_>,
    queue: i32,
    letters: &[&DeadLetter],
    dead: Vec<i64>,
) -> sqlx::Result<()> {
    if letters.is_empty() {
        return Ok(());
    }
    let feed = |letter: &&DeadLetter| match letter.recognition {
        Recognition::Content { session, .. } => Some(session.cast_signed()),
        _ => None,
    };
    let (ids, digests): (Vec<i64>, Vec<i64>) = letters.iter().map(|it| identity(it)).unzip();
    let insert = session
        .query(
            "INSERT INTO {schema}.taken (queue, letter, digest, at, session, dead)
             SELECT $1, letter, digest, $2, session, dead
             FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS new (letter, digest, session, dead)",
        )
        .bind(queue)
        .bind(session.now_millis())
        .bind(ids)
        .bind(digests)
        .bind(letters.iter().map(feed).collect::<Vec<_>>())
        .bind(dead);
    session.execute(insert).await.map(drop)
}

/// Marks a dead letter as a possible copy of another.
pub(crate) async fn mark_copy(
    session: &mut Session<'_>,
    dead: i64,
    original: i64,
) -> sqlx::Result<()> {
    let mark = session.query("UPDATE {schema}.dead SET copy_of = $2 WHERE id = $1");
    session.execute(mark.bind(dead).bind(original)).await.map(drop)
}

/// Notes that the broker is told to remove letters. Those with a lasting id need no note.
pub(crate) async fn removing(
    session: &mut Session<'_>,
    name: &QueueName,
    letters: &[DeadLetterId],
) -> Found<()> {
    let ids: Vec<i64> = letters.iter().map(|id| id.number()).collect();
    let find = session
        .query("SELECT id FROM {schema}.queues WHERE name = $1")
        .bind(name.as_str().to_owned());
    let queue: i32 = match session.optional(find).await? {
        Some(row) => row.try_get(0)?,
        None => i32::MIN,
    };
    session.lock(format!("intake {queue}")).await?;
    let note = session
        .query(
            "WITH noted AS (
                 UPDATE {schema}.taken SET removing = true
                 WHERE queue = $1 AND letter = ANY ($2) AND session IS NOT NULL
             )
             SELECT letter FROM {schema}.taken WHERE queue = $1 AND letter = ANY ($2)",
        )
        .bind(queue)
        .bind(ids);
    let rows = session.all(note).await?;
    let known: HashSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    Ok(match letters.iter().find(|id| !known.contains(&id.number())) {
        Some(unknown) => Err(CatalogueError::TakenOver(*unknown)),
        None => Ok(()),
    })
}
