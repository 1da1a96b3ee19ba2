//! Messages and their ledgers as rows.

use bezoar_core::{
    Body, ContentType, CorrelationId, HeaderValue, Headers, Ledger, Message, MessageId,
    MessageType, OrderingKey, Reason, millis,
};
use sqlx::{Row, postgres::PgRow};

use crate::ledger_json;

/// Whether a row is still a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrity {
    Intact,
    /// A field has a value that no message can have, or the message is gone: somebody changed the tables by hand.
    Malformed,
}

impl Integrity {
    /// The reason if the message cannot be delivered.
    pub(crate) fn problem(self) -> Option<Reason> {
        match self {
            Self::Intact => None,
            Self::Malformed => Some(Reason::undecodable()),
        }
    }
}

/// Reads a message: its counters and the details of its ledger begin at column `at`, its envelope five columns later
/// with id, type, correlation id, causation id, content type, headers, time, expiry, ordering key and body.
///
/// Malformed fields are replaced, so that the rest can still be shown.
pub(crate) fn message(row: &PgRow, seq: i64, at: usize) -> sqlx::Result<(Message, Integrity)> {
    let mut integrity = Integrity::Intact;
    let text = |column: usize| row.try_get::<Option<&str>, _>(at + 5 + column);
    let (id, message_type) = (text(0)?.unwrap_or_default(), text(1)?.unwrap_or_default());
    let (correlation_id, causation_id, content_type) = (text(2)?, text(3)?, text(4)?);
    let (headers, ordering_key) = (text(5)?, text(8)?);
    let id = MessageId::new(id).unwrap_or_else(|_| {
        integrity = Integrity::Malformed;
        MessageId::new(format!("row-{seq}")).expect("a short word")
    });
    let message_type = MessageType::new(message_type).unwrap_or_else(|_| {
        integrity = Integrity::Malformed;
        MessageType::new("damaged").expect("a short word")
    });
    let headers = headers_from_json(headers).unwrap_or_else(|_| {
        integrity = Integrity::Malformed;
        Headers::new()
    });
    let time: Option<i64> = row.try_get(at + 11)?;
    let body: Option<Vec<u8>> = row.try_get(at + 14)?;
    let body = Body::from(body.unwrap_or_default());
    let mut message = Message::new(id, message_type, millis(time.unwrap_or_default()), body);
    message.headers = headers;
    message.correlation_id = correlation_id.and_then(|id| CorrelationId::new(id).ok());
    message.causation_id = causation_id.and_then(|id| MessageId::new(id).ok());
    message.content_type = content_type.and_then(|it| ContentType::new(it).ok());
    message.expires_at = row.try_get::<Option<i64>, _>(at + 12)?.map(millis);
    message.ordering_key = ordering_key.and_then(|key| OrderingKey::new(key).ok());
    message.ledger = ledger(row, at)?;
    Ok((message, integrity))
}

/// Reads a ledger: four counters and the details begin at column `at`.
pub(crate) fn ledger(row: &PgRow, at: usize) -> sqlx::Result<Ledger> {
    // A wrong counter must not stop a queue.
    let count = |column: usize| Ok::<_, sqlx::Error>(row.try_get::<i32, _>(at + column)?.max(0));
    let [acquired, failed, released, replayed] =
        [count(0)?, count(1)?, count(2)?, count(3)?].map(i32::unsigned_abs);
    let details = row.try_get::<Option<&str>, _>(at + 4)?;
    let (history, uncounted) =
        details.map_or_else(Default::default, |json| ledger_json::read(json, replayed));
    let mut ledger = Ledger::restored(acquired, failed, released, replayed, history);
    ledger.uncounted = uncounted;
    Ok(ledger)
}

/// A counter as the tables have it.
pub(crate) fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// PostgreSQL's texts have no NUL.
pub(crate) fn without_nul(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}"),
        false => text,
    }
}

pub(crate) fn headers_to_json(headers: &Headers) -> Option<String> {
    let json =
        |(name, value): (&String, &HeaderValue)| (name.clone(), value.reveal().clone().into());
    (!headers.is_empty())
        .then(|| serde_json::Value::Object(headers.iter().map(json).collect()).to_string())
}

/// The names of headers; none if they cannot be read.
pub(crate) fn header_names(json: Option<&str>) -> Vec<String> {
    headers_from_json(json).map(|headers| headers.into_keys().collect()).unwrap_or_default()
}

fn headers_from_json(json: Option<&str>) -> Result<Headers, serde_json::Error> {
    let Some(json) = json else { return Ok(Headers::new()) };
    let texts: std::collections::BTreeMap<String, String> = serde_json::from_str(json)?;
    Ok(texts.into_iter().map(|(name, value)| (name, value.into())).collect())
}
