//! Lists and counts dead letters.

use bezoar_core::{
    Code, CorrelationId, DeadLetterId, FailureKind, MessageId, MessageType, QueueName,
    catalogue::{
        CauseId, Count, DeadLetterState, DeadLetterSummary, Filter, Fingerprint, ListRequest,
        OperationId, PAGE_LIMIT,
    },
    millis,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    filter::{END, Sieve},
    record,
};
use crate::catalogue::session::{Session, number};

pub(crate) async fn list(
    session: &mut Session<'_>,
    filter: &Filter,
    page: &ListRequest,
) -> sqlx::Result<Vec<DeadLetterSummary>> {
    let sieve = Sieve::new(session, filter).await?;
    let after = page.after.map_or(END, |after| (after.died_at.as_millisecond(), after.id.number()));
    let ids = sieve.page(session, after, page.limit.clamp(1, PAGE_LIMIT)).await?;
    entries(session, ids).await
}

pub(crate) async fn count(session: &mut Session<'_>, filter: &Filter) -> sqlx::Result<Count> {
    let sieve = Sieve::new(session, filter).await?;
    let ungrouped = ungrouped(session).await?;
    let exact = sieve.causes().is_none() || ungrouped == 0;
    if !filter.is_of_causes_only() {
        let (count, all) = sieve.count(session).await?;
        return Ok(Count { count, exact: exact && all });
    }
    let count = match sieve.causes() {
        Some(causes) => causes.values().sum(),
        None => grouped(session).await? + ungrouped,
    };
    Ok(Count { count, exact })
}

async fn grouped(session: &mut Session<'_>) -> sqlx::Result<u64> {
    let select = session.query(
        "SELECT ((SELECT coalesce(sum(count), 0) FROM {schema}.causes)
               + (SELECT coalesce(sum(count), 0) FROM {schema}.cause_changes))::bigint",
    );
    number(&session.one(select).await?, 0)
}

/// How many dead letters have no cause yet, so that they are not found by attributes of a cause.
async fn ungrouped(session: &mut Session<'_>) -> sqlx::Result<u64> {
    let select = session.query("SELECT count(*) FROM {schema}.dead WHERE cause IS NULL");
    number(&session.one(select).await?, 0)
}

/// A dead letter as lists show it.
pub(crate) async fn entry(
    session: &mut Session<'_>,
    id: i64,
) -> sqlx::Result<Option<DeadLetterSummary>> {
    Ok(entries(session, vec![id]).await?.pop())
}

/// Dead letters as lists show them, in the order of the ids. Those that are gone are left out.
async fn entries(session: &mut Session<'_>, ids: Vec<i64>) -> sqlx::Result<Vec<DeadLetterSummary>> {
    let select = session
        .query(
            "SELECT d.id, q.name, d.message_id, m.type, d.correlation_id, d.kind, d.code, d.cause, d.reason,
                    m.time, d.arrived_at, d.failed, d.replayed, d.bytes,
                    (SELECT o.id FROM {schema}.operations AS o
                     WHERE o.id = d.operation AND o.state NOT IN ('cancelled', 'ended', 'void')),
                    d.edited_as, d.unapproved, d.edited_from, d.seq, d.died_at, d.copy_of
             FROM unnest($1::bigint[]) WITH ORDINALITY AS chosen (id, place)
             CROSS JOIN LATERAL (SELECT * FROM {schema}.dead AS d WHERE d.id = chosen.id OFFSET 0) AS d
             LEFT JOIN LATERAL (SELECT name FROM {schema}.queues AS q WHERE q.id = d.queue OFFSET 0) AS q ON true
             LEFT JOIN LATERAL (
                 SELECT type, time FROM {schema}.messages AS m WHERE m.seq = d.seq OFFSET 0
             ) AS m ON true
             ORDER BY chosen.place",
        )
        .bind(ids);
    let mut entries = Vec::new();
    for row in session.all(select).await? {
        let (mut entry, is_grouped) = read_entry(&row)?;
        if !is_grouped {
            group(session, &mut entry).await?;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The entry of a row, and whether it has a cause. Damaged fields are replaced, so that the rest can be shown.
fn read_entry(row: &PgRow) -> sqlx::Result<(DeadLetterSummary, bool)> {
    let (id, seq): (i64, i64) = (row.try_get(0)?, row.try_get(18)?);
    let text = |column| row.try_get::<Option<&str>, _>(column).map(Option::unwrap_or_default);
    let letter =
        |column| row.try_get::<Option<i64>, _>(column).map(|id| id.map(DeadLetterId::from_number));
    let count = |column| row.try_get::<i32, _>(column).map(|count| count.max(0).unsigned_abs());
    let named = |word: &str| MessageId::new(word).expect("a short word");
    let cause = CauseId::new(text(7)?).ok();
    let is_grouped = cause.is_some();
    let entry = DeadLetterSummary {
        id: DeadLetterId::from_number(id),
        queue: queue_name(row, 1)?,
        message_id: MessageId::new(text(2)?).unwrap_or_else(|_| named(&format!("row-{seq}"))),
        message_type: MessageType::new(text(3)?)
            .unwrap_or_else(|_| MessageType::new("damaged").expect("a short word")),
        correlation_id: CorrelationId::new(text(4)?).ok(),
        kind: text(5)?.parse().unwrap_or(FailureKind::Unknown),
        code: Code::new(text(6)?).unwrap_or(Code::UNKNOWN),
        cause: cause.unwrap_or_else(|| CauseId::new("v0:0000000000000000").expect("it is one")),
        reason: text(8)?.to_owned(),
        time: millis(row.try_get::<Option<i64>, _>(9)?.unwrap_or_default()),
        died_at: millis(row.try_get(19)?),
        arrived_at: millis(row.try_get(10)?),
        attempts: count(11)?,
        replayed: count(12)?,
        body_bytes: count(13)?.into(),
        state: state(row)?,
        edited_from: letter(17)?,
        possible_copy_of: letter(20)?,
    };
    Ok((entry, is_grouped))
}

fn state(row: &PgRow) -> sqlx::Result<DeadLetterState> {
    let taken: Option<i64> = row.try_get(14)?;
    let edited: Option<i64> = row.try_get(15)?;
    let unapproved: bool = row.try_get(16)?;
    Ok(match (taken, edited, unapproved) {
        (Some(operation), ..) => DeadLetterState::Held(OperationId::from_number(operation)),
        (_, Some(_), _) => DeadLetterState::Edited,
        (_, _, true) => DeadLetterState::Unapproved,
        _ => DeadLetterState::Open,
    })
}

/// A queue's name. An invalid name is replaced, so that the rows of that queue are still shown.
pub(crate) fn queue_name(row: &PgRow, column: usize) -> sqlx::Result<QueueName> {
    let name = QueueName::new(row.try_get::<Option<&str>, _>(column)?.unwrap_or_default());
    Ok(name.unwrap_or_else(|_| QueueName::new("damaged").expect("a short word")))
}

/// Computes the cause that a dead letter without one will get.
async fn group(session: &mut Session<'_>, entry: &mut DeadLetterSummary) -> sqlx::Result<()> {
    let found = record::dead_letter(session, entry.id.number(), record::NO_BODY).await?;
    let Some(dead) = found else { return Ok(()) };
    let print = Fingerprint::of(&dead.queue, &dead.message, &[], &dead.reason);
    entry.kind = print.kind;
    entry.code = print.code.clone();
    entry.cause = print.cause(&session.key);
    Ok(())
}
