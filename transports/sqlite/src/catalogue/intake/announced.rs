//! What is known of messages that a broker sets aside by itself, until they are taken in.

use bezoar_core::{Body, Code, DeadLetter, Message, QueueName, Reason};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{catalogue::dead_letters::edit::counts, row, session::Session, settle::Counts};

/// Remembers why messages are about to be set aside, and what became of them so far.
pub(crate) fn announce(
    session: &mut Session,
    connection: &Connection,
    name: &QueueName,
    dying: &[(Message, Reason)],
) -> rusqlite::Result<()> {
    let queue = super::adopt(session, connection, name)?;
    super::forget(session, connection)?;
    for (message, reason) in dying {
        let numbered = Message::new(
            message.id.clone(),
            message.message_type.clone(),
            message.time,
            Body::default(),
        );
        let seq = row::insert_message(connection, &numbered)?;
        row::insert_ledger(connection, seq, &message.ledger)?;
        let Counts { acquired, failed, released, replayed, history } = counts(message);
        connection
            .prepare_cached("INSERT INTO bezoar_announced VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?
            .execute(params![
                queue,
                message.id.as_str(),
                seq,
                session.now_millis(),
                reason.code().as_str(),
                reason.to_string(),
                acquired,
                failed,
                released,
                replayed,
                history,
            ])?;
    }
    Ok(())
}

/// Adds to a letter what was said of it before, the latest if that was more than once.
pub(crate) fn complete(
    connection: &Connection,
    queue: i64,
    letter: &mut DeadLetter,
) -> rusqlite::Result<()> {
    let found = connection
        .prepare_cached(
            "DELETE FROM bezoar_announced WHERE (queue, message_id, seq) IN
             (SELECT queue, message_id, max(seq) FROM bezoar_announced WHERE queue = ?1 AND message_id = ?2)
             RETURNING seq, reason_code, reason, acquired, failed, released, replayed, history",
        )?
        .query_row(params![queue, letter.message.id.as_str()], |row| {
            let seq = row.get(0)?;
            let code = Code::new(row.get::<_, String>(1)?).unwrap_or(Code::UNKNOWN);
            let reason = Reason::new(code, row.get::<_, String>(2)?);
            Ok((seq, reason, row::read_ledger(connection, row, seq, 3)?))
        })
        .optional()?;
    if let Some((seq, reason, mut ledger)) = found {
        ledger.replay = letter.message.ledger.replay;
        letter.reason = reason;
        letter.message.ledger = ledger;
        row::delete_message(connection, seq, true)?;
    }
    Ok(())
}

/// Forgets what nobody asked for since a time, a piece at a time.
pub(crate) fn forget(connection: &Connection, before: i64, limit: i64) -> rusqlite::Result<()> {
    let gone: Vec<i64> = connection
        .prepare_cached(
            "DELETE FROM bezoar_announced WHERE (queue, message_id, seq) IN
             (SELECT queue, message_id, seq FROM bezoar_announced WHERE at < ?1 LIMIT ?2) RETURNING seq",
        )?
        .query_map([before, limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    gone.into_iter().try_for_each(|seq| row::delete_message(connection, seq, true))
}
