//! Everything about one dead letter.

use bezoar_core::{
    Code, DeadLetterId, Message, QueueName, Reason,
    catalogue::{CHAIN_LIMIT, CatalogueError, DeadLetterRecord, ItemState, OperationId},
};
use sqlx::{Row, postgres::PgRow};

use super::list::{entry, queue_name};
use crate::{
    catalogue::{Found, operations::item_state, session::Session},
    row::{self, Integrity},
};

/// The column of the body.
pub(crate) const BODY: &str = "m.body";
/// An empty body in its place.
pub(crate) const NO_BODY: &str = "''::bytea";

/// A dead letter with the values of its own rows.
pub(crate) struct Dead {
    pub(crate) id: i64,
    pub(crate) queue: QueueName,
    pub(crate) queue_number: i32,
    pub(crate) seq: i64,
    pub(crate) message: Message,
    pub(crate) reason: Reason,
    pub(crate) died_at: i64,
    pub(crate) cause: Option<String>,
    pub(crate) bytes: i64,
    pub(crate) edited_by: Option<String>,
}

pub(crate) async fn dead_letter(
    session: &mut Session<'_>,
    id: i64,
    body: &'static str,
) -> sqlx::Result<Option<Dead>> {
    Ok(dead_letters(session, vec![id], body).await?.pop())
}

/// Dead letters in the order of their ids. Those that are gone are left out.
pub(crate) async fn dead_letters(
    session: &mut Session<'_>,
    ids: Vec<i64>,
    body: &'static str,
) -> sqlx::Result<Vec<Dead>> {
    let sql = format!(
        "SELECT d.id, d.seq, d.reason_code, d.reason, d.died_at, d.queue, q.name, d.cause, d.bytes, d.edited_by,
                d.acquired, d.failed, d.released, d.replayed, l.details,
                m.id, m.type, m.correlation_id, m.causation_id, m.content_type, m.headers, m.time, m.expires_at,
                m.ordering_key, {body}
         FROM {{schema}}.dead AS d
         LEFT JOIN LATERAL (SELECT name FROM {{schema}}.queues AS q WHERE q.id = d.queue OFFSET 0) AS q ON true
         LEFT JOIN LATERAL (SELECT * FROM {{schema}}.messages AS m WHERE m.seq = d.seq OFFSET 0) AS m ON true
         LEFT JOIN LATERAL (
             SELECT details FROM {{schema}}.ledgers AS l WHERE d.detailed AND l.seq = d.seq OFFSET 0
         ) AS l ON true
         WHERE d.id = ANY ($1) ORDER BY d.id"
    );
    let select = session.query(&sql).bind(ids);
    session.all(select).await?.iter().map(read).collect()
}

fn read(row: &PgRow) -> sqlx::Result<Dead> {
    let seq = row.try_get(1)?;
    let (message, integrity) = row::message(row, seq, 10)?;
    let code = Code::new(row.try_get::<String, _>(2)?).unwrap_or(Code::UNKNOWN);
    let reason = Reason::new(code, row.try_get::<String, _>(3)?);
    Ok(Dead {
        id: row.try_get(0)?,
        queue: queue_name(row, 6)?,
        queue_number: row.try_get(5)?,
        seq,
        message,
        reason: if integrity == Integrity::Intact { reason } else { Reason::undecodable() },
        died_at: row.try_get(4)?,
        cause: row.try_get(7)?,
        bytes: row.try_get::<i32, _>(8)?.into(),
        edited_by: row.try_get(9)?,
    })
}

pub(crate) async fn record(
    session: &mut Session<'_>,
    id: DeadLetterId,
    body: &'static str,
) -> Found<DeadLetterRecord> {
    let number = id.number();
    let (entry, dead) = (entry(session, number).await?, dead_letter(session, number, body).await?);
    let (Some(entry), Some(mut dead)) = (entry, dead) else {
        return Ok(Err(gone(session, id).await?));
    };
    dead.message.ledger.replay = sent_by(session, dead.seq, number).await?;
    Ok(Ok(DeadLetterRecord {
        versions: versions(session, number).await?,
        earlier: earlier(session, number).await?,
        operations: operations(session, dead.seq).await?,
        entry,
        message: dead.message,
        reason: dead.reason,
    }))
}

/// Why a dead letter does not exist: it was replayed or discarded, or its id is unknown.
pub(crate) async fn gone(
    session: &mut Session<'_>,
    id: DeadLetterId,
) -> sqlx::Result<CatalogueError> {
    let select = session
        .query(
            "SELECT operation, state, again, cause FROM {schema}.items
             WHERE dead = $1 AND state IN ('in flight', 'completed', 'failed again', 'discarded')
             ORDER BY operation DESC LIMIT 1",
        )
        .bind(id.number());
    let Some(row) = session.optional(select).await? else {
        return Ok(CatalogueError::NoDeadLetter(id));
    };
    let operation = OperationId::from_number(row.try_get(0)?);
    Ok(match item_state(&row, 1, &ItemState::InFlight)? {
        ItemState::Discarded => CatalogueError::Discarded { id, operation },
        state => CatalogueError::Replayed { id, operation, state },
    })
}

/// The earlier dead letters of the same message, each replayed and failed again, oldest first.
async fn earlier(session: &mut Session<'_>, id: i64) -> sqlx::Result<Vec<DeadLetterId>> {
    let sql = "SELECT dead FROM {schema}.items WHERE again = $1 ORDER BY operation DESC LIMIT 1";
    let mut found = follow(session, sql, id).await?;
    found.reverse();
    Ok(found)
}

/// The replay that sent the message of this dead letter.
async fn sent_by(
    session: &mut Session<'_>,
    seq: i64,
    id: i64,
) -> sqlx::Result<Option<OperationId>> {
    let select =
        session.query("SELECT operation FROM {schema}.items WHERE seq = $1 AND again = $2");
    let found = session.optional(select.bind(seq).bind(id)).await?;
    found.map(|row| row.try_get(0).map(OperationId::from_number)).transpose()
}

/// All versions of the same message except this one, the original first.
async fn versions(session: &mut Session<'_>, id: i64) -> sqlx::Result<Vec<DeadLetterId>> {
    let before = "SELECT edited_from FROM {schema}.dead WHERE id = $1 AND edited_from > 0";
    let after = "SELECT edited_as FROM {schema}.dead WHERE id = $1 AND edited_as > 0";
    let mut versions = follow(session, before, id).await?;
    versions.reverse();
    versions.extend(follow(session, after, id).await?);
    Ok(versions)
}

/// Follows a link from one dead letter to the next.
async fn follow(session: &mut Session<'_>, sql: &str, id: i64) -> sqlx::Result<Vec<DeadLetterId>> {
    let (mut found, mut next) = (Vec::new(), Some(id));
    while let Some(id) = next.filter(|_| found.len() < CHAIN_LIMIT) {
        let select = session.query(sql).bind(id);
        next = session.optional(select).await?.map(|row| row.try_get(0)).transpose()?;
        found.extend(next.map(DeadLetterId::from_number));
    }
    Ok(found)
}

/// The operations that a message was part of, latest last.
async fn operations(session: &mut Session<'_>, seq: i64) -> sqlx::Result<Vec<OperationId>> {
    let select = session
        .query(
            "SELECT operation FROM {schema}.items AS i
             WHERE seq = $1 AND EXISTS (SELECT 1 FROM {schema}.operations AS o
                                        WHERE o.id = i.operation AND o.state NOT IN ('freezing', 'void'))
             ORDER BY operation DESC LIMIT $2",
        )
        .bind(seq)
        .bind(CHAIN_LIMIT as i64);
    let rows = session.all(select).await?;
    rows.iter().rev().map(|row| row.try_get(0).map(OperationId::from_number)).collect()
}
