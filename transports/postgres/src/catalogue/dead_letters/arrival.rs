//! Inserts dead letters that did not die in a queue of this store: taken in, imported or edited.

use bezoar_core::{
    Message, QueueName, Reason,
    catalogue::{CauseId, Fingerprint},
};
use sqlx::Row;

use crate::{
    catalogue::{
        causes::cause_changes::{Arrived, Group, How},
        session::Session,
    },
    columns::{LedgerColumns, MessageColumns, ordering_key},
    row::{count, without_nul},
};

/// A dead letter that is inserted.
pub(crate) struct Arrival<'a> {
    /// The name and number of its queue.
    pub(crate) queue: (&'a QueueName, i32),
    pub(crate) message: &'a Message,
    pub(crate) reason: &'a Reason,
    pub(crate) died_at: i64,
    pub(crate) how: How,
}

/// Inserts dead letters in order, with their messages. Returns the id and the cause of each.
pub(crate) async fn insert(
    session: &mut Session<'_>,
    arrivals: &[Arrival<'_>],
) -> sqlx::Result<Vec<(i64, CauseId)>> {
    if arrivals.is_empty() {
        return Ok(Vec::new());
    }
    let now = session.now_millis();
    let mut grouped = Vec::with_capacity(arrivals.len());
    for it in arrivals {
        let print = Fingerprint::of(it.queue.0, it.message, &[], it.reason);
        let (cause, group) = (print.cause(&session.key), Group::of(it.queue.1, &print));
        let arrived = Arrived {
            died_at: it.died_at.min(now), // another clock may be ahead
            bytes: i64::try_from(it.message.body.len()).unwrap_or(i64::MAX),
            attempts: count(it.message.ledger.failed),
            how: it.how,
        };
        session.causes.arrived(&cause, group.clone(), &arrived);
        grouped.push((cause, group, arrived.died_at));
    }
    let all = arrivals.iter().map(|it| (it.queue.1, it.message));
    let messages = all.clone().map(|(_, message)| message);
    let query = MessageColumns::of(all).bind(session.query(INSERT));
    let query = query.bind(messages.clone().map(ordering_key).collect::<Vec<_>>());
    let query = LedgerColumns::of(messages).bind(query);
    let reasons = arrivals.iter().map(|it| it.reason);
    let query = query
        .bind(reasons.clone().map(|it| it.code().as_str().to_owned()).collect::<Vec<_>>())
        .bind(reasons.map(|it| without_nul(it.to_string())).collect::<Vec<_>>())
        .bind(grouped.iter().map(|(.., died_at)| *died_at).collect::<Vec<_>>())
        .bind(grouped.iter().map(|(_, it, _)| it.kind.clone()).collect::<Vec<_>>())
        .bind(grouped.iter().map(|(_, it, _)| it.code.clone()).collect::<Vec<_>>())
        .bind(grouped.iter().map(|(cause, ..)| cause.as_str().to_owned()).collect::<Vec<_>>())
        .bind(now);
    let rows = session.all(query).await?;
    let ids = rows.iter().map(|row| row.try_get(0));
    ids.zip(grouped).map(|(id, (cause, ..))| Ok((id?, cause))).collect()
}

/// Ids are given in the order of the arrays.
const INSERT: &str = "WITH sent AS MATERIALIZED (
        SELECT nextval('{schema_text}.message_seq') AS seq, sent.*
        FROM unnest(
            $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
            $9::bigint[], $10::bytea[], $11::text[], $12::integer[], $13::integer[], $14::integer[], $15::integer[],
            $16::text[], $17::text[], $18::text[], $19::bigint[], $20::text[], $21::text[], $22::text[]
        ) WITH ORDINALITY AS sent (
            queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at, body, ordering_key,
            acquired, failed, released, replayed, details, reason_code, reason, died_at, kind, code, cause,
            place
        )
    ), stored AS (
        INSERT INTO {schema}.messages
            (seq, queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at, ordering_key,
             body)
        SELECT seq, queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at,
               ordering_key, body
        FROM sent
    ), recorded AS (
        INSERT INTO {schema}.ledgers (seq, details) SELECT seq, details FROM sent WHERE details IS NOT NULL
    ), died AS (
        INSERT INTO {schema}.dead
            (queue, seq, reason_code, reason, died_at, arrived_at, bytes, acquired, failed, released, replayed,
             detailed, message_id, correlation_id, kind, code, cause)
        SELECT queue, seq, reason_code, reason, died_at, $23, octet_length(body), acquired, failed, released, replayed,
               details IS NOT NULL, id, correlation_id, kind, code, cause
        FROM sent ORDER BY place
        RETURNING id
    )
    SELECT id FROM died ORDER BY id";
