//! Causes as operators see them: lists, states and notes.

pub(crate) mod cause_grouping;

use std::{collections::HashMap, ops::ControlFlow};

use bezoar_core::{
    Code, DeadLetterId, FailureKind, MessageType,
    catalogue::{
        AuditedAction, CatalogueError, Cause, CauseId, CauseState, Filter, HourCounts, PAGE_LIMIT,
    },
    millis,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    catalogue::{
        audit,
        dead_letters::{filter_walk::Sieve, list::queue_name},
    },
    row,
    session::Session,
};

/// How many of the latest dead letters a cause shows.
const SAMPLES: u32 = 5;
/// How many rows are read to find the causes with dead letters that match.
const LOOK_LIMIT: u64 = 20_000;

/// Lists the causes of dead letters that match, largest first. A cause that is requested by its id is listed even if
/// it has none.
pub(crate) fn causes(
    connection: &Connection,
    filter: &Filter,
    limit: u32,
    now: i64,
) -> rusqlite::Result<Vec<Cause>> {
    let limit = limit.clamp(1, PAGE_LIMIT) as usize;
    let sieve = Sieve::new(connection, filter)?;
    let numbers = match (&filter.cause, &sieve.causes) {
        (Some(id), _) if sieve.is_of_causes_only() && filter.queues.is_none() => {
            Vec::from_iter(number(connection, id)?)
        }
        (_, Some(causes)) if sieve.is_of_causes_only() => largest(causes, limit),
        (_, None) if sieve.is_of_causes_only() => largest_of_all(connection, limit)?,
        _ => largest(&seen(connection, &sieve)?, limit),
    };
    numbers.into_iter().map(|number| cause(connection, number, now)).collect()
}

/// How many matching dead letters each cause has, within the rows that were read.
fn seen(connection: &Connection, sieve: &Sieve) -> rusqlite::Result<HashMap<i64, u64>> {
    let mut found = HashMap::new();
    let mut looked_at = 0;
    sieve.sweep(connection, |glance, fits| {
        if let Some(cause) = glance.cause.filter(|_| fits) {
            *found.entry(cause).or_default() += 1;
        }
        looked_at += 1;
        if looked_at < LOOK_LIMIT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

fn largest(causes: &HashMap<i64, u64>, limit: usize) -> Vec<i64> {
    let mut causes: Vec<_> = causes.iter().map(|(number, count)| (*count, *number)).collect();
    causes.sort_unstable_by(|one, other| other.cmp(one));
    causes.into_iter().take(limit).map(|(_, number)| number).collect()
}

fn largest_of_all(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached(
            "SELECT number FROM bezoar_causes WHERE count > 0
             ORDER BY count DESC, number DESC LIMIT ?1",
        )?
        .query_map([limit as i64], |row| row.get(0))?
        .collect()
}

fn number(connection: &Connection, id: &CauseId) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT number FROM bezoar_causes WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()
}

fn cause(connection: &Connection, number: i64, now: i64) -> rusqlite::Result<Cause> {
    let mut cause = connection
        .prepare_cached(
            "SELECT c.id, q.name, c.type, c.kind, c.code, c.count, c.ever, c.first_seen, c.last_seen, c.state,
                    c.note, c.note_by, c.note_at, c.hour, c.this_hour, c.last_hour
             FROM bezoar_causes AS c JOIN bezoar_queues AS q ON q.id = c.queue WHERE c.number = ?1",
        )?
        .query_row([number], |row| read_cause(row, now))?;
    cause.samples = connection
        .prepare_cached(
            "SELECT id FROM bezoar_dead WHERE cause = ?1
             ORDER BY died_at DESC, id DESC LIMIT ?2",
        )?
        .query_map(params![number, SAMPLES], |row| row.get(0).map(DeadLetterId::from_number))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(cause)
}

fn read_cause(row: &Row<'_>, now: i64) -> rusqlite::Result<Cause> {
    let text = |column| row::text(row, column).map(Option::unwrap_or_default);
    let number = |column| row.get(column).map(|count: i64| count.max(0).unsigned_abs());
    let hours = HourCounts { hour: row.get(13)?, this: number(14)?, last: number(15)? }
        .seen_in(HourCounts::hour_of(now));
    let state = text(9)?;
    let note = match (row.get(10)?, row.get(11)?, row.get(12)?) {
        (Some(note), Some(who), Some(at)) => Some((note, who, millis(at))),
        _ => None,
    };
    let damaged = |_| MessageType::new("damaged").expect("a short word");
    Ok(Cause {
        id: CauseId::new(text(0)?)
            .unwrap_or_else(|_| CauseId::new("v0:0000000000000000").expect("it is one")),
        queue: queue_name(row, 1)?,
        message_type: MessageType::new(text(2)?).unwrap_or_else(damaged),
        kind: text(3)?.parse().unwrap_or(FailureKind::Unknown),
        code: Code::new(text(4)?).unwrap_or(Code::UNKNOWN),
        count: number(5)?,
        ever: number(6)?,
        this_hour: hours.this,
        last_hour: hours.last,
        first_seen: millis(row.get(7)?),
        last_seen: millis(row.get(8)?),
        samples: Vec::new(),
        state: CauseState::ALL
            .iter()
            .copied()
            .find(|it| it.as_str() == state)
            .unwrap_or(CauseState::Open),
        note,
    })
}

/// Without a note the old one stays, with its author; an empty note removes it.
pub(crate) fn mark(
    session: &mut Session,
    connection: &Connection,
    (id, state, note): (&CauseId, CauseState, Option<&str>),
    action: &AuditedAction,
) -> rusqlite::Result<Result<Cause, CatalogueError>> {
    let Some(number) = number(connection, id)? else {
        return Ok(Err(CatalogueError::NoCause(id.clone())));
    };
    let now = session.now_millis();
    connection
        .prepare_cached("UPDATE bezoar_causes SET state = ?2 WHERE number = ?1")?
        .execute(params![number, state.as_str()])?;
    if let Some(note) = note {
        let note = Some(note).filter(|note| !note.is_empty());
        connection
            .prepare_cached(
                "UPDATE bezoar_causes SET note = ?2, note_by = ?3, note_at = ?4 WHERE number = ?1",
            )?
            .execute(params![number, note, note.map(|_| &action.actor), note.map(|_| now)])?;
    }
    audit::append(session, connection, action)?;
    cause(connection, number, now).map(Ok)
}
