//! Lists and counts dead letters.

use std::ops::ControlFlow;

use bezoar_core::{
    Code, CorrelationId, DeadLetterId, FailureKind, MessageId, MessageType, QueueName,
    catalogue::{
        CauseId, Count, DeadLetterState, DeadLetterSummary, Filter, Fingerprint, ListRequest,
        OperationId, PAGE_LIMIT,
    },
    millis,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{filter_walk::Sieve, record};
use crate::catalogue::causes::cause_grouping;
use crate::row;

/// How many rows are read for a count.
const LOOK_LIMIT: u64 = 20_000;

pub(crate) fn list(
    connection: &Connection,
    filter: &Filter,
    page: &ListRequest,
) -> rusqlite::Result<Vec<DeadLetterSummary>> {
    let sieve = Sieve::new(connection, filter)?;
    let limit = page.limit.clamp(1, PAGE_LIMIT) as usize;
    let before = page
        .after
        .map_or((i64::MAX, i64::MAX), |after| (after.died_at.as_millisecond(), after.id.number()));
    let mut ids = Vec::with_capacity(limit);
    sieve.walk(connection, before, |glance, fits| {
        if fits {
            ids.push(glance.id);
        }
        if ids.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let mut entries = Vec::with_capacity(ids.len());
    for id in ids {
        entries.extend(entry(connection, id)?);
    }
    Ok(entries)
}

pub(crate) fn count(connection: &Connection, filter: &Filter) -> rusqlite::Result<Count> {
    let sieve = Sieve::new(connection, filter)?;
    let exact = sieve.causes.is_none() || !has_ungrouped(connection)?;
    if sieve.is_of_causes_only() {
        let count = match &sieve.causes {
            Some(causes) => causes.values().sum(),
            None => all(connection)?,
        };
        return Ok(Count { count, exact });
    }
    let (mut count, mut looked_at) = (0, 0);
    sieve.sweep(connection, |_, fits| {
        count += u64::from(fits);
        looked_at += 1;
        if looked_at <= LOOK_LIMIT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(Count { count, exact: exact && looked_at <= LOOK_LIMIT })
}

fn all(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT coalesce(sum(dead), 0) FROM bezoar_queues")?
        .query_row([], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
}

/// Whether some dead letters have no cause yet, so that they are not found by attributes of a
/// cause.
fn has_ungrouped(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM bezoar_dead WHERE cause IS NULL)")?
        .query_row([], |row| row.get(0))
}

/// A dead letter as lists show it. The size of a body is known without reading it.
pub(crate) fn entry(
    connection: &Connection,
    id: i64,
) -> rusqlite::Result<Option<DeadLetterSummary>> {
    let found = connection
        .prepare_cached(
            "SELECT d.id, q.name, d.message_id, m.type, d.correlation_id, c.kind, c.code, c.id, d.reason,
                    m.time, d.at, d.failed, d.replayed, length(m.body),
                    (SELECT o.id FROM bezoar_operations AS o
                     WHERE o.id = d.operation AND o.state NOT IN ('cancelled', 'ended', 'void')),
                    d.edited_as, d.unapproved, d.edited_from, d.seq, d.died_at, d.copy_of
             FROM bezoar_dead AS d
             JOIN bezoar_queues AS q ON q.id = d.queue
             JOIN bezoar_messages AS m ON m.seq = d.seq
             LEFT JOIN bezoar_causes AS c ON c.number = d.cause
             WHERE d.id = ?1",
        )?
        .query_row([id], read_entry)
        .optional()?;
    let Some((mut entry, is_grouped)) = found else { return Ok(None) };
    if !is_grouped {
        group(connection, &mut entry)?;
    }
    Ok(Some(entry))
}

/// The entry of a row, and whether it has a cause. Damaged fields are replaced, so that the rest can
/// be shown.
fn read_entry(row: &Row<'_>) -> rusqlite::Result<(DeadLetterSummary, bool)> {
    let (id, seq): (i64, i64) = (row.get(0)?, row.get(18)?);
    let text = |column| row::text(row, column).map(Option::unwrap_or_default);
    let named = |word: &str| MessageId::new(word).expect("a short word");
    let cause = row::text(row, 7)?.and_then(|id| CauseId::new(id).ok());
    let is_grouped = cause.is_some();
    let entry = DeadLetterSummary {
        id: DeadLetterId::from_number(id),
        queue: queue_name(row, 1)?,
        message_id: MessageId::new(text(2)?).unwrap_or_else(|_| named(&format!("row-{seq}"))),
        message_type: MessageType::new(text(3)?)
            .unwrap_or_else(|_| MessageType::new("damaged").expect("a short word")),
        correlation_id: row::text(row, 4)?.and_then(|id| CorrelationId::new(id).ok()),
        kind: text(5)?.parse().unwrap_or(FailureKind::Unknown),
        code: Code::new(text(6)?).unwrap_or(Code::UNKNOWN),
        cause: cause.unwrap_or_else(|| CauseId::new("v0:0000000000000000").expect("it is one")),
        reason: text(8)?.to_owned(),
        time: millis(row.get(9)?),
        died_at: millis(row.get(19)?),
        arrived_at: millis(row.get(10)?),
        attempts: row::count(row, 11)?,
        replayed: row::count(row, 12)?,
        body_bytes: row.get::<_, i64>(13)?.unsigned_abs(),
        state: state(row)?,
        edited_from: row.get::<_, Option<i64>>(17)?.map(DeadLetterId::from_number),
        possible_copy_of: row.get::<_, Option<i64>>(20)?.map(DeadLetterId::from_number),
    };
    Ok((entry, is_grouped))
}

fn state(row: &Row<'_>) -> rusqlite::Result<DeadLetterState> {
    let taken: Option<i64> = row.get(14)?;
    let edited: Option<i64> = row.get(15)?;
    let unapproved: bool = row.get(16)?;
    Ok(match (taken, edited, unapproved) {
        (Some(operation), ..) => DeadLetterState::Held(OperationId::from_number(operation)),
        (_, Some(_), _) => DeadLetterState::Edited,
        (_, _, true) => DeadLetterState::Unapproved,
        _ => DeadLetterState::Open,
    })
}

/// A queue's name. An invalid name is replaced, so that the rows of that queue are still shown.
pub(crate) fn queue_name(row: &Row<'_>, column: usize) -> rusqlite::Result<QueueName> {
    let name = QueueName::new(row::text(row, column)?.unwrap_or_default());
    Ok(name.unwrap_or_else(|_| QueueName::new("damaged").expect("a short word")))
}

/// Computes the cause that a dead letter without one will get.
fn group(connection: &Connection, entry: &mut DeadLetterSummary) -> rusqlite::Result<()> {
    let Some(dead) = record::dead_letter(connection, entry.id.number(), record::NO_BODY)? else {
        return Ok(());
    };
    let print = Fingerprint::of(&dead.queue, &dead.message, &[], &dead.reason);
    entry.kind = print.kind;
    entry.code = print.code.clone();
    entry.cause = print.cause(&cause_grouping::store_key(connection)?);
    Ok(())
}
