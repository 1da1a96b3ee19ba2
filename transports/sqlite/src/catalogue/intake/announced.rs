//! Stores what is known about messages that a broker dead-letters by itself, until they are taken
//! in.

use bezoar_core::{
    Body, Code, CorrelationId, DeadLetter, Invalid, Message, MessageId, MessageType, QueueName,
    Reason,
    catalogue::{Rejection, RejectionFilter},
    millis,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    catalogue::{Found, dead_letters::edit::counts},
    row,
    session::Session,
    settle::Counts,
};

/// Stores why messages are about to be dead-lettered, and their history.
pub(crate) fn announce(
    session: &mut Session,
    connection: &Connection,
    name: &QueueName,
    dying: &[(Message, Reason)],
    max_bytes: Option<u64>,
) -> Found<()> {
    let queue = super::adopt(session, connection, name)?;
    super::forget(session, connection)?;
    if let Err(full) = super::has_room(connection, max_bytes, 0)? {
        return Ok(Err(full));
    }
    for (message, reason) in dying {
        let mut numbered = Message::new(
            message.id.clone(),
            message.message_type.clone(),
            message.time,
            Body::default(),
        );
        numbered.correlation_id = message.correlation_id.clone();
        let seq = row::insert_message(connection, &numbered)?;
        row::insert_ledger(connection, seq, &message.ledger)?;
        let Counts { acquired, failed, released, replayed, history } = counts(message);
        connection
            .prepare_cached("INSERT INTO bezoar_announced VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?
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
                message.correlation_id.as_ref().map(|id| id.as_str()),
            ])?;
    }
    Ok(Ok(()))
}

/// Adds the announced reason and history to a letter; the latest if it was announced more than
/// once. A broker does not keep an id that was assigned here, so such a letter is found by its content, and gets its id
/// back. Returns whether it was announced.
pub(crate) fn complete(
    connection: &Connection,
    queue: i64,
    letter: &mut DeadLetter,
) -> rusqlite::Result<bool> {
    let id = &letter.message.id;
    let (least, most) = match id.content_part() {
        Some(part) => (part, format!("{part}g")), // hexadecimal digits follow the part
        None => (id.as_str(), id.to_string()),
    };
    let found = connection
        .prepare_cached(
            "DELETE FROM bezoar_announced WHERE (queue, message_id, seq) IN
             (SELECT queue, message_id, max(seq) FROM bezoar_announced
              WHERE queue = ?1 AND message_id BETWEEN ?2 AND ?3)
             RETURNING seq, reason_code, reason, acquired, failed, released, replayed, history, message_id",
        )?
        .query_row(params![queue, least, most], |row| {
            let seq = row.get(0)?;
            let id = stored(MessageId::new(row.get::<_, String>(8)?), 8)?;
            let code = Code::new(row.get::<_, String>(1)?).unwrap_or(Code::UNKNOWN);
            let reason = Reason::new(code, row.get::<_, String>(2)?);
            Ok((seq, id, reason, row::read_ledger(connection, row, seq, 3)?))
        })
        .optional()?;
    let Some((seq, id, reason, mut ledger)) = found else { return Ok(false) };
    ledger.replay = letter.message.ledger.replay;
    (letter.message.id, letter.message.ledger, letter.reason) = (id, ledger, reason);
    row::delete_message(connection, seq, true)?;
    Ok(true)
}

/// Lists announcements since a time whose letters were not taken in, newest first.
pub(crate) fn list(
    connection: &Connection,
    filter: &RejectionFilter,
    since: i64,
    limit: u32,
) -> rusqlite::Result<Vec<Rejection>> {
    let mut statement = connection.prepare_cached(&query(filter))?;
    let message_id = filter.message_id.as_ref().map(|id| id.as_str());
    let correlation_id = filter.correlation_id.as_ref().map(|id| id.as_str());
    let (before, number) = match &filter.after {
        Some(after) => (after.at.as_millisecond(), after.number),
        None => (i64::MAX, i64::MAX),
    };
    let mut rows = statement.query(params![since, message_id, correlation_id, before, number])?;
    let mut found = Vec::new();
    while found.len() < limit as usize
        && let Some(row) = rows.next()?
    {
        let rejection = rejection(connection, row)?;
        let fits = |queues: &Vec<QueueName>| queues.contains(&rejection.queue);
        if filter.queues.as_ref().is_none_or(fits) {
            found.push(rejection);
        }
    }
    Ok(found)
}

/// The statement for a filter. Each of the two ids has an index, which is also in the order of the
/// list.
fn query(filter: &RejectionFilter) -> String {
    let (index, condition) = match (&filter.message_id, &filter.correlation_id) {
        (Some(_), _) => {
            ("by_message", "a.message_id = ?2 AND (?3 IS NULL OR a.correlation_id = ?3)")
        }
        (None, Some(_)) => ("by_correlation", "?2 IS NULL AND a.correlation_id = ?3"),
        (None, None) => ("by_time", "?2 IS NULL AND ?3 IS NULL"),
    };
    format!(
        "SELECT q.name, a.message_id, m.type, a.correlation_id, a.at, a.reason_code, a.reason, a.seq,
                a.acquired, a.failed, a.released, a.replayed, a.history
         FROM bezoar_announced AS a INDEXED BY bezoar_announced_{index}
         CROSS JOIN bezoar_queues AS q ON q.id = a.queue
         CROSS JOIN bezoar_messages AS m ON m.seq = a.seq
         WHERE a.at >= ?1 AND (a.at, a.seq) < (?4, ?5) AND {condition}
         ORDER BY a.at DESC, a.seq DESC"
    )
}

fn rejection(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Rejection> {
    let text = |column: usize| row.get::<_, String>(column);
    let code = Code::new(text(5)?).unwrap_or(Code::UNKNOWN);
    let seq: i64 = row.get(7)?;
    let correlation_id = row.get::<_, Option<String>>(3)?;
    Ok(Rejection {
        queue: stored(QueueName::new(text(0)?), 0)?,
        message_id: stored(MessageId::new(text(1)?), 1)?,
        message_type: stored(MessageType::new(text(2)?), 2)?,
        correlation_id: correlation_id.and_then(|id| CorrelationId::new(id).ok()),
        at: millis(row.get(4)?),
        reason: Reason::new(code, text(6)?),
        ledger: row::read_ledger(connection, row, seq, 8)?,
        number: seq,
    })
}

/// A name that was valid when it was stored.
fn stored<T>(name: Result<T, Invalid>, column: usize) -> rusqlite::Result<T> {
    name.map_err(|invalid| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            invalid.into(),
        )
    })
}

/// Removes announcements from before a time, up to `limit` at a time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, database};

    /// The query plan of the statement for this filter.
    fn plan(filter: &RejectionFilter) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let connection = database::open(&Options::new(folder.path().join("plan.db"))).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", query(filter));
        let mut plan = connection.prepare(&sql).unwrap();
        let steps = plan.query_map(params![1, "a", "b", 2, 3], |row| row.get(3)).unwrap();
        steps.map(Result::unwrap).collect()
    }

    #[test]
    fn a_rejection_is_found_by_either_id_without_reading_the_others() {
        let message_id = Some(MessageId::new("a").unwrap());
        let correlation_id = Some(CorrelationId::new("b").unwrap());
        let by_message = RejectionFilter { message_id, ..RejectionFilter::default() };
        let by_correlation = RejectionFilter { correlation_id, ..RejectionFilter::default() };
        for (filter, first) in [
            (by_message, "bezoar_announced_by_message (message_id=? AND at>? AND (at,seq)<(?,?))"),
            (
                by_correlation,
                "bezoar_announced_by_correlation (correlation_id=? AND at>? AND (at,seq)<(?,?))",
            ),
        ] {
            let steps = plan(&filter);
            let [announced, queue, message] = &steps[..] else { panic!("sorts: {steps:?}") };
            assert!(
                announced.starts_with("SEARCH a USING INDEX ") && announced.ends_with(first),
                "{steps:?}"
            );
            assert!([queue, message].iter().all(|step| step.starts_with("SEARCH ")), "{steps:?}");
        }
    }
}
