//! Stores what is known about messages that a broker dead-letters by itself, until they are taken in.

use bezoar_core::{
    Code, CorrelationId, DeadLetter, Message, MessageId, MessageType, QueueName, Reason,
    catalogue::{Rejection, RejectionFilter},
    millis,
};
use sqlx::{Row, postgres::PgRow};

use crate::{
    catalogue::{Found, dead_letters::list::queue_name, session::Session},
    columns::LedgerColumns,
    row::{self, without_nul},
};

/// Stores why messages are about to be dead-lettered, and their history.
pub(crate) async fn announce(
    session: &mut Session<'_>,
    name: &QueueName,
    dying: &[(Message, Reason)],
) -> Found<()> {
    let queue = super::adopt(session, name).await?;
    super::forget(session).await?;
    if let Err(full) = super::has_room(session, 0).await? {
        return Ok(Err(full));
    }
    let messages = dying.iter().map(|(message, _)| message);
    let text = |it: &str| it.to_owned();
    let insert = session
        .query(
            "INSERT INTO {schema}.announced
                 (queue, at, message_id, type, correlation_id, acquired, failed, released, replayed, details, reason_code,
                  reason)
             SELECT $1, $2, * FROM unnest(
                 $3::text[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::integer[], $9::integer[],
                 $10::text[], $11::text[], $12::text[])",
        )
        .bind(queue)
        .bind(session.now_millis())
        .bind(messages.clone().map(|it| text(it.id.as_str())).collect::<Vec<_>>())
        .bind(messages.clone().map(|it| text(it.message_type.as_str())).collect::<Vec<_>>())
        .bind(
            messages
                .clone()
                .map(|it| it.correlation_id.as_ref().map(CorrelationId::as_str).map(text))
                .collect::<Vec<_>>(),
        );
    let reasons = dying.iter().map(|(_, reason)| reason);
    let insert = LedgerColumns::of(messages)
        .bind(insert)
        .bind(reasons.clone().map(|it| text(it.code().as_str())).collect::<Vec<_>>())
        .bind(reasons.map(|it| without_nul(it.to_string())).collect::<Vec<_>>());
    session.execute(insert).await?;
    Ok(Ok(()))
}

/// Adds the announced reason and history to a letter; the latest if it was announced more than once. A broker does not
/// keep an id that was assigned here, so such a letter is found by its content, and gets its id back. Returns whether it
/// was announced.
pub(crate) async fn complete(
    session: &mut Session<'_>,
    queue: i32,
    letter: &mut DeadLetter,
) -> sqlx::Result<bool> {
    let id = &letter.message.id;
    let (least, most) = match id.content_part() {
        Some(part) => (part.to_owned(), format!("{part}g")), // hexadecimal digits follow the part
        None => (id.to_string(), id.to_string()),
    };
    let take = session
        .query(
            "DELETE FROM {schema}.announced WHERE (queue, message_id, number) = (
                 SELECT queue, message_id, number FROM {schema}.announced
                 WHERE queue = $1 AND message_id BETWEEN $2 AND $3 ORDER BY number DESC LIMIT 1 FOR UPDATE)
             RETURNING message_id, reason_code, reason, acquired, failed, released, replayed, details",
        )
        .bind(queue)
        .bind(least)
        .bind(most);
    let Some(row) = session.optional(take).await? else { return Ok(false) };
    let mut ledger = row::ledger(&row, 3)?;
    ledger.replay = letter.message.ledger.replay;
    if let Ok(id) = MessageId::new(row.try_get::<String, _>(0)?) {
        letter.message.id = id;
    }
    (letter.message.ledger, letter.reason) = (ledger, reason(&row, 1)?);
    Ok(true)
}

fn reason(row: &PgRow, column: usize) -> sqlx::Result<Reason> {
    let code = Code::new(row.try_get::<String, _>(column)?).unwrap_or(Code::UNKNOWN);
    Ok(Reason::new(code, row.try_get::<String, _>(column + 1)?))
}

/// Lists announcements whose letters were not taken in, newest first. Each of the two ids has an index, which is also in
/// the order of the list.
pub(crate) async fn list(
    session: &mut Session<'_>,
    filter: &RejectionFilter,
    limit: u32,
) -> sqlx::Result<Vec<Rejection>> {
    let condition = match (&filter.message_id, &filter.correlation_id) {
        (Some(_), _) => "a.message_id = $2 AND ($3::text IS NULL OR a.correlation_id = $3)",
        (None, Some(_)) => "a.correlation_id = $3",
        (None, None) => "true",
    };
    let sql = format!(
        "SELECT (SELECT q.name FROM {{schema}}.queues AS q WHERE q.id = a.queue), a.message_id, a.type,
                a.correlation_id, a.at, a.reason_code, a.reason, a.acquired, a.failed, a.released, a.replayed, a.details,
                a.number
         FROM {{schema}}.announced AS a
         WHERE a.at >= $1 AND (a.at, a.number) < ($6, $7) AND {condition}
           AND ($4::text[] IS NULL OR a.queue IN (SELECT q.id FROM {{schema}}.queues AS q WHERE q.name = ANY ($4)))
         ORDER BY a.at DESC, a.number DESC LIMIT $5"
    );
    let queues: Option<Vec<String>> =
        filter.queues.as_ref().map(|queues| queues.iter().map(ToString::to_string).collect());
    let select = session
        .query(&sql)
        .bind(super::remembered_since(session))
        .bind(filter.message_id.as_ref().map(|id| id.as_str().to_owned()))
        .bind(filter.correlation_id.as_ref().map(|id| id.as_str().to_owned()))
        .bind(queues)
        .bind(i64::from(limit))
        .bind(filter.after.map_or(i64::MAX, |after| after.at.as_millisecond()))
        .bind(filter.after.map_or(i64::MAX, |after| after.number));
    session.all(select).await?.iter().map(rejection).collect()
}

fn rejection(row: &PgRow) -> sqlx::Result<Rejection> {
    let text =
        |column: usize| row.try_get::<Option<&str>, _>(column).map(Option::unwrap_or_default);
    Ok(Rejection {
        queue: queue_name(row, 0)?,
        message_id: MessageId::new(text(1)?)
            .unwrap_or_else(|_| MessageId::new("damaged").expect("a short word")),
        message_type: MessageType::new(text(2)?)
            .unwrap_or_else(|_| MessageType::new("damaged").expect("a short word")),
        correlation_id: CorrelationId::new(text(3)?).ok(),
        at: millis(row.try_get(4)?),
        number: row.try_get(12)?,
        reason: reason(row, 5)?,
        ledger: row::ledger(row, 7)?,
    })
}
