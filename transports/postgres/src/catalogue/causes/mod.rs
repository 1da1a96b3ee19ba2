//! Causes as operators see them: lists, states and notes.

pub(crate) mod cause_changes;
pub(crate) mod regroup;

use std::collections::HashMap;

use bezoar_core::{
    Code, DeadLetterId, FailureKind, MessageType,
    catalogue::{AuditedAction, CatalogueError, Cause, CauseId, CauseState, Filter, PAGE_LIMIT},
    millis,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    Found, audit,
    dead_letters::{filter::Sieve, list::queue_name},
    session::{Session, number},
};
use crate::row::without_nul;

/// How many of the latest dead letters a cause shows.
const SAMPLES: i64 = 5;

/// Lists the causes of dead letters that match, largest first. A cause that is requested by its id is listed even if it
/// has none.
pub(crate) async fn causes(
    session: &mut Session<'_>,
    filter: &Filter,
    limit: u32,
) -> sqlx::Result<Vec<Cause>> {
    let limit = limit.clamp(1, PAGE_LIMIT) as usize;
    if let Some(id) = &filter.cause
        && filter.is_of_causes_only()
        && filter.queues.is_none()
    {
        return read(session, vec![id.as_str().to_owned()]).await;
    }
    let sieve = Sieve::new(session, filter).await?;
    let found = match (sieve.causes(), filter.is_of_causes_only()) {
        (Some(causes), true) => largest(causes, limit),
        (None, true) => largest_of_all(session, limit).await?,
        _ => largest(&sieve.causes_with_matches(session).await?, limit),
    };
    read(session, found).await
}

fn largest(causes: &HashMap<String, u64>, limit: usize) -> Vec<String> {
    let mut causes: Vec<_> = causes.iter().map(|(id, count)| (*count, id)).collect();
    causes.sort_unstable_by(|one, other| other.cmp(one));
    causes.into_iter().take(limit).map(|(_, id)| id.clone()).collect()
}

async fn largest_of_all(session: &mut Session<'_>, limit: usize) -> sqlx::Result<Vec<String>> {
    let select = session
        .query(
            "SELECT id FROM {schema}.cause_totals WHERE count > 0 ORDER BY count DESC, id DESC LIMIT $1",
        )
        .bind(limit as i64);
    session.all(select).await?.iter().map(|row| row.try_get(0)).collect()
}

/// The causes with these ids, in this order. Unknown ids are left out.
async fn read(session: &mut Session<'_>, ids: Vec<String>) -> sqlx::Result<Vec<Cause>> {
    let select = session
        .query(
            "SELECT t.id, (SELECT q.name FROM {schema}.queues AS q WHERE q.id = t.queue), t.type, t.kind, t.code,
                    t.count, t.ever, t.first_seen, t.last_seen, t.state, t.note, t.note_by, t.note_at, t.this_hour,
                    t.last_hour,
                    ARRAY(SELECT d.id FROM {schema}.dead AS d WHERE d.cause = t.id
                          ORDER BY d.died_at DESC, d.id DESC LIMIT $2)
             FROM {schema}.cause_totals AS t
             WHERE t.id = ANY ($1) ORDER BY array_position($1, t.id)",
        )
        .bind(ids)
        .bind(SAMPLES);
    session.all(select).await?.iter().map(read_cause).collect()
}

fn read_cause(row: &PgRow) -> sqlx::Result<Cause> {
    let text = |column| row.try_get::<Option<&str>, _>(column).map(Option::unwrap_or_default);
    let time = |column| row.try_get::<Option<i64>, _>(column).map(Option::unwrap_or_default);
    let state = text(9)?;
    let note = match (row.try_get(10)?, row.try_get(11)?, row.try_get(12)?) {
        (Some(note), Some(who), Some(at)) => Some((note, who, millis(at))),
        _ => None,
    };
    let damaged = |_| MessageType::new("damaged").expect("a short word");
    let samples: Vec<i64> = row.try_get(15)?;
    Ok(Cause {
        id: CauseId::new(text(0)?)
            .unwrap_or_else(|_| CauseId::new("v0:0000000000000000").expect("it is one")),
        queue: queue_name(row, 1)?,
        message_type: MessageType::new(text(2)?).unwrap_or_else(damaged),
        kind: text(3)?.parse().unwrap_or(FailureKind::Unknown),
        code: Code::new(text(4)?).unwrap_or(Code::UNKNOWN),
        count: number(row, 5)?,
        ever: number(row, 6)?,
        this_hour: number(row, 13)?,
        last_hour: number(row, 14)?,
        first_seen: millis(time(7)?),
        last_seen: millis(time(8)?),
        samples: samples.into_iter().map(DeadLetterId::from_number).collect(),
        state: CauseState::ALL
            .iter()
            .copied()
            .find(|it| it.as_str() == state)
            .unwrap_or(CauseState::Open),
        note,
    })
}

/// A change of a cause by an operator.
pub(crate) struct Mark {
    pub(crate) cause: CauseId,
    pub(crate) state: CauseState,
    pub(crate) note: Option<String>,
}

/// Without a note the old one stays, with its author; an empty note removes it. All changes are added up first: what
/// arrives later makes a resolved cause a regressed one.
pub(crate) async fn mark(
    session: &mut Session<'_>,
    mark: &Mark,
    action: &AuditedAction,
) -> Found<Cause> {
    cause_changes::add_up(session).await?;
    let note = mark.note.clone().map(without_nul).filter(|note| !note.is_empty());
    let update = session
        .query(
            "UPDATE {schema}.causes SET
                 state = $2,
                 note = CASE WHEN $3 THEN $4 ELSE note END,
                 note_by = CASE WHEN $3 THEN $5 ELSE note_by END,
                 note_at = CASE WHEN $3 THEN $6 ELSE note_at END
             WHERE id = $1",
        )
        .bind(mark.cause.as_str().to_owned())
        .bind(mark.state.as_str())
        .bind(mark.note.is_some())
        .bind(note.clone())
        .bind(note.as_ref().map(|_| action.actor.clone()))
        .bind(note.as_ref().map(|_| session.now_millis()));
    if session.execute(update).await? == 0 {
        return Ok(Err(CatalogueError::NoCause(mark.cause.clone())));
    }
    audit::append(session, action).await?;
    let marked = read(session, vec![mark.cause.as_str().to_owned()]).await?.pop();
    Ok(marked.ok_or_else(|| CatalogueError::NoCause(mark.cause.clone())))
}
