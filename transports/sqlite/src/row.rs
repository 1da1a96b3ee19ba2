//! Messages and their failed tries as rows.

use std::time::Duration;

use bezoar_core::{
    Body, Code, ContentType, CorrelationId, Delivery, Detail, FailedTry, FailureKind,
    HISTORY_LIMIT, HeaderValue, Headers, Ledger, Message, MessageId, MessageType, OrderingKey,
    Reason, UncountedSummary, millis, to_millis,
};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params, types::ValueRef};

use crate::checksum::{self, StoredFields};

/// The row of a delivery. A delivery of another transport has none; it gets a number that no row
/// has.
pub(crate) fn seq(delivery: &Delivery) -> i64 {
    delivery.receipt.numbers().map_or(i64::MIN, |[seq, ..]| seq)
}

/// The row that the next message will have. Reading it once for a batch costs less than a second write for each message.
pub(crate) fn next_seq(connection: &Connection) -> rusqlite::Result<i64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'bezoar_messages'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(last.unwrap_or(0) + 1)
}

pub(crate) fn insert_message(connection: &Connection, message: &Message) -> rusqlite::Result<i64> {
    let (id, message_type) = (message.id.as_str(), message.message_type.as_str());
    let correlation_id = message.correlation_id.as_ref().map(CorrelationId::as_str);
    let causation_id = message.causation_id.as_ref().map(MessageId::as_str);
    let content_type = message.content_type.as_ref().map(ContentType::as_str);
    let (headers, time) = (headers_to_json(&message.headers), message.time.as_millisecond());
    let body = &message.body.reveal()[..];
    let expires_at = message.expires_at.map(|at| at.as_millisecond());
    let ordering_key = message.ordering_key.as_ref().map(OrderingKey::as_str);
    let fields = StoredFields {
        id: id.as_bytes(),
        message_type: message_type.as_bytes(),
        correlation_id: correlation_id.map(str::as_bytes),
        causation_id: causation_id.map(str::as_bytes),
        content_type: content_type.map(str::as_bytes),
        headers: headers.as_deref().map(str::as_bytes),
        time,
        body,
        expires_at,
        ordering_key: ordering_key.map(str::as_bytes),
    };
    connection
        .prepare_cached(
            "INSERT INTO bezoar_messages
             (id, type, correlation_id, causation_id, content_type, headers, time, body, checksum,
              expires_at, ordering_key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .insert(params![
            id,
            message_type,
            correlation_id,
            causation_id,
            content_type,
            headers,
            time,
            body,
            fields.checksum(),
            expires_at,
            ordering_key,
        ])
}

/// Stores a copy of a message under a new id, with the old id as its causation id, and returns the
/// row of the copy.
///
/// The copy of a damaged message must count as damaged too: it gets a checksum that no message has.
pub(crate) fn copy_message(
    connection: &Connection,
    seq: i64,
    new_id: &MessageId,
) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached(
        "SELECT id, type, correlation_id, causation_id, content_type, headers, time, body, checksum,
                expires_at, ordering_key
         FROM bezoar_messages WHERE seq = ?1",
    )?;
    let checksum = select.query_row([seq], |row| {
        let stored = stored_fields(row, 0)?;
        let renamed = StoredFields {
            id: new_id.as_str().as_bytes(),
            causation_id: Some(stored.id),
            ..stored
        };
        Ok(row.get::<_, Option<i64>>(8)?.map(|expected| {
            if stored.checksum() == expected { renamed.checksum() } else { checksum::NEVER }
        }))
    })?;
    connection
        .prepare_cached(
            "INSERT INTO bezoar_messages
             (id, type, correlation_id, causation_id, content_type, headers, time, body, checksum,
              expires_at, ordering_key)
             SELECT ?2, type, correlation_id, id, content_type, headers, time, body, ?3,
                    expires_at, ordering_key
             FROM bezoar_messages WHERE seq = ?1",
        )?
        .insert(params![seq, new_id.as_str(), checksum])
}

pub(crate) fn delete_message(
    connection: &Connection,
    seq: i64,
    has_history: bool,
) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM bezoar_messages WHERE seq = ?1")?.execute([seq])?;
    if has_history {
        delete_tries(connection, seq)?;
        connection.prepare_cached("DELETE FROM bezoar_uncounted WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(())
}

/// Whether a ledger contains more than its counters. The column `history` records this.
pub(crate) fn has_details(ledger: &Ledger) -> bool {
    !ledger.history().is_empty() || ledger.uncounted.is_some()
}

/// Whether a row is still the message that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrity {
    Intact,
    /// A field has a value that no message can have: somebody wrote the row by hand.
    Malformed,
    /// The row does not match its checksum.
    Damaged,
}

impl Integrity {
    /// The reason if the message cannot be delivered.
    pub(crate) fn problem(self) -> Option<Reason> {
        match self {
            Self::Intact => None,
            Self::Malformed => Some(Reason::undecodable()),
            Self::Damaged => Some(Reason::damaged()),
        }
    }

    /// The reason of a dead letter as it is shown, which includes damage that happened later.
    pub(crate) fn reported_in(self, reason: Reason) -> Reason {
        match self {
            Self::Damaged if *reason.code() != Reason::DAMAGED => {
                Reason::new(Reason::DAMAGED, format!("{}; before: {reason}", Reason::damaged()))
            }
            _ => reason,
        }
    }
}

/// Reads a message whose counters begin at column `ledger` and whose envelope begins at column `envelope`:
/// id, type, correlation id, causation id, content type, headers, time, body, checksum, expiry, ordering key.
///
/// Malformed fields are replaced, so that the rest can still be shown.
pub(crate) fn message(
    connection: &Connection,
    row: &Row<'_>,
    seq: i64,
    ledger: usize,
    envelope: usize,
) -> rusqlite::Result<(Message, Integrity)> {
    let stored = stored_fields(row, envelope)?;
    let mut integrity = Integrity::Intact;
    let id = MessageId::new(stored_text(stored.id)).unwrap_or_else(|_| {
        integrity = Integrity::Malformed;
        MessageId::new(format!("row-{seq}")).expect("a short word")
    });
    let message_type = MessageType::new(stored_text(stored.message_type)).unwrap_or_else(|_| {
        integrity = Integrity::Malformed;
        MessageType::new("damaged").expect("a short word")
    });
    let headers = headers_from_json(stored.headers.map(stored_text)).unwrap_or_else(|_| {
        integrity = Integrity::Malformed;
        Headers::new()
    });
    let body: Body = Bytes::copy_from_slice(stored.body).into();
    let mut message = Message::new(id, message_type, millis(stored.time), body);
    message.headers = headers;
    let text = |bytes: Option<_>| bytes.map(stored_text);
    message.correlation_id = text(stored.correlation_id).and_then(|id| CorrelationId::new(id).ok());
    message.causation_id = text(stored.causation_id).and_then(|id| MessageId::new(id).ok());
    message.content_type = text(stored.content_type).and_then(|it| ContentType::new(it).ok());
    message.expires_at = stored.expires_at.map(millis);
    message.ordering_key = text(stored.ordering_key).and_then(|key| OrderingKey::new(key).ok());
    message.ledger = read_ledger(connection, row, seq, ledger)?;
    // A row without a checksum always matches.
    let expected: Option<i64> = row.get(envelope + 8)?;
    if expected.is_some_and(|expected| stored.checksum() != expected) {
        integrity = Integrity::Damaged;
    }
    Ok((message, integrity))
}

/// Stored text; text that is not UTF-8 counts as empty.
fn stored_text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// The fields of a row as they are stored, beginning at column `at`.
fn stored_fields<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<StoredFields<'a>> {
    let bytes = |column: usize| match row.get_ref(at + column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(bytes)),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Ok::<_, rusqlite::Error>(None),
    };
    Ok(StoredFields {
        id: bytes(0)?.unwrap_or_default(),
        message_type: bytes(1)?.unwrap_or_default(),
        correlation_id: bytes(2)?,
        causation_id: bytes(3)?,
        content_type: bytes(4)?,
        headers: bytes(5)?,
        time: row.get(at + 6)?,
        body: bytes(7)?.unwrap_or_default(),
        expires_at: row.get(at + 9)?,
        ordering_key: bytes(10)?,
    })
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str().unwrap_or_default())), // text that is not UTF-8 counts as empty
    }
}

pub(crate) fn read_ledger(
    connection: &Connection,
    row: &Row<'_>,
    seq: i64,
    at: usize,
) -> rusqlite::Result<Ledger> {
    let (acquired, failed) = (count(row, at)?, count(row, at + 1)?);
    let (released, replayed) = (count(row, at + 2)?, count(row, at + 3)?);
    // The counters do not show this: a history from elsewhere may come without them.
    let has_history: bool = row.get(at + 4)?;
    let history = if has_history { tries(connection, seq)? } else { Vec::new() };
    let mut ledger = Ledger::restored(acquired, failed, released, replayed, history);
    if has_history {
        ledger.uncounted = uncounted(connection, seq, replayed)?;
    }
    Ok(ledger)
}

/// A counter, clamped to the range of a ledger, because a wrong counter must not stop a queue.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    Ok(row.get::<_, i64>(column)?.clamp(0, u32::MAX.into()) as u32)
}

/// Stores the parts of a ledger other than its counters.
pub(crate) fn insert_ledger(
    connection: &Connection,
    seq: i64,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    insert_tries(connection, seq, ledger.history())?;
    write_uncounted(connection, seq, ledger)
}

/// Stores the summary of uncounted failures, and replaces an earlier one.
pub(crate) fn write_uncounted(
    connection: &Connection,
    seq: i64,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let Some(uncounted) = &ledger.uncounted else { return Ok(()) };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO bezoar_uncounted VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            seq,
            ledger.replayed,
            uncounted.count,
            uncounted.suspected,
            uncounted.first.as_millisecond(),
            uncounted.last.as_millisecond(),
            to_millis(uncounted.waited),
            uncounted.code.as_str(),
        ])?;
    Ok(())
}

fn uncounted(
    connection: &Connection,
    seq: i64,
    generation: u32,
) -> rusqlite::Result<Option<UncountedSummary>> {
    connection
        .prepare_cached(
            "SELECT count, suspected, first, last, waited_ms, code
             FROM bezoar_uncounted WHERE seq = ?1 AND generation = ?2",
        )?
        .query_row(params![seq, generation], |row| {
            Ok(UncountedSummary {
                count: count(row, 0)?,
                suspected: count(row, 1)?,
                first: millis(row.get(2)?),
                last: millis(row.get(3)?),
                waited: Duration::from_millis(row.get::<_, i64>(4)?.unsigned_abs()),
                code: Code::new(text(row, 5)?.unwrap_or_default()).unwrap_or(Code::UNKNOWN),
            })
        })
        .optional()
}

/// Stores the `count` tries of an attempt that `after` has and `before` has not, and drops the oldest beyond the limit.
pub(crate) fn record(
    connection: &Connection,
    seq: i64,
    before: &Ledger,
    after: &Ledger,
    count: usize,
) -> rusqlite::Result<()> {
    let known = before.history().len();
    if known == 0 {
        return insert_tries(connection, seq, after.history());
    }
    if known + count <= HISTORY_LIMIT {
        return append_tries(connection, seq, &after.history()[known..]);
    }
    delete_tries(connection, seq)?;
    insert_tries(connection, seq, after.history())
}

/// Stores tries of a message that has none.
fn insert_tries(connection: &Connection, seq: i64, tries: &[FailedTry]) -> rusqlite::Result<()> {
    for (failed, place) in tries.iter().zip(1..) {
        insert_try(connection, seq, place, failed)?;
    }
    Ok(())
}

/// Stores tries behind those that the message has. The oldest of these may have been dropped, so their places do not begin
/// with 1.
fn append_tries(connection: &Connection, seq: i64, tries: &[FailedTry]) -> rusqlite::Result<()> {
    let last: i64 = connection
        .prepare_cached("SELECT coalesce(max(place), 0) FROM bezoar_attempts WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))?;
    for (failed, place) in tries.iter().zip(last + 1..) {
        insert_try(connection, seq, place, failed)?;
    }
    Ok(())
}

fn insert_try(
    connection: &Connection,
    seq: i64,
    place: i64,
    failed: &FailedTry,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO bezoar_attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            seq,
            place,
            failed.generation,
            failed.attempt,
            failed.try_number,
            failed.started_at.as_millisecond(),
            to_millis(failed.duration),
            failed.kind.as_str(),
            failed.code.as_str(),
            failed.detail.reveal(),
        ])?;
    Ok(())
}

fn delete_tries(connection: &Connection, seq: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM bezoar_attempts WHERE seq = ?1")?.execute([seq])?;
    Ok(())
}

fn tries(connection: &Connection, seq: i64) -> rusqlite::Result<Vec<FailedTry>> {
    connection
        .prepare_cached(
            "SELECT generation, number, tried, at, duration_ms, kind, code, detail
             FROM bezoar_attempts WHERE seq = ?1 ORDER BY place",
        )?
        .query_map([seq], |row| {
            Ok(FailedTry {
                generation: count(row, 0)?,
                attempt: count(row, 1)?,
                try_number: count(row, 2)?,
                started_at: millis(row.get(3)?),
                duration: Duration::from_millis(row.get::<_, i64>(4)?.unsigned_abs()),
                kind: text(row, 5)?.unwrap_or_default().parse().unwrap_or(FailureKind::Unknown),
                code: Code::new(text(row, 6)?.unwrap_or_default()).unwrap_or(Code::UNKNOWN),
                detail: Detail::truncated(text(row, 7)?.unwrap_or_default().to_owned()),
            })
        })?
        .collect()
}

fn headers_to_json(headers: &Headers) -> Option<String> {
    let json =
        |(name, value): (&String, &HeaderValue)| (name.clone(), value.reveal().clone().into());
    (!headers.is_empty())
        .then(|| serde_json::Value::Object(headers.iter().map(json).collect()).to_string())
}

fn headers_from_json(json: Option<&str>) -> Result<Headers, serde_json::Error> {
    let Some(json) = json else { return Ok(Headers::new()) };
    let texts: std::collections::BTreeMap<String, String> = serde_json::from_str(json)?;
    Ok(texts.into_iter().map(|(name, value)| (name, value.into())).collect())
}

/// The names in a JSON object of headers; none if it is not one.
pub(crate) fn header_names(json: &str) -> Vec<String> {
    let headers = headers_from_json(Some(json).filter(|json| !json.is_empty()));
    headers.map(|headers| headers.into_keys().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, database};

    const READ: &str =
        "SELECT 0, 0, 0, 0, 0, id, type, correlation_id, causation_id, content_type, headers,
         time, body, checksum, expires_at, ordering_key FROM bezoar_messages WHERE seq = ?1";

    fn integrity(connection: &Connection, seq: i64) -> Integrity {
        let read = |row: &Row<'_>| message(connection, row, seq, 0, 5);
        connection.query_row(READ, [seq], read).unwrap().1
    }

    #[test]
    fn a_copy_is_as_intact_as_its_original() {
        let folder = tempfile::tempdir().unwrap();
        let connection = database::open(&Options::new(folder.path().join("lab.db"))).unwrap();
        let id = |text| MessageId::new(text).unwrap();
        let message = Message::new(id("old"), MessageType::new("t").unwrap(), millis(1), "body");
        let stored = insert_message(&connection, &message).unwrap();
        let copy = copy_message(&connection, stored, &id("new")).unwrap();
        assert_eq!(integrity(&connection, copy), Integrity::Intact);
        connection.execute("UPDATE bezoar_messages SET body = x'00'", []).unwrap();
        assert_eq!(integrity(&connection, copy), Integrity::Damaged);
        let copy = copy_message(&connection, stored, &id("newer")).unwrap();
        assert_eq!(integrity(&connection, copy), Integrity::Damaged);
        connection.execute("UPDATE bezoar_messages SET checksum = NULL", []).unwrap();
        let copy = copy_message(&connection, stored, &id("newest")).unwrap();
        assert_eq!(
            integrity(&connection, copy),
            Integrity::Intact,
            "without a checksum there is nothing to compare"
        );
    }
}
