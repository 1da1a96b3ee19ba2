//! From a filter to the dead letters that fit.
//!
//! Queue, type, kind, code and cause are attributes of causes, of which there are few: the causes that fit are
//! chosen first. Then the shortest way to their dead letters is walked, in the order of ids, and what is left of the
//! filter is asked of each row. Ids grow with time, so that a span of time is a span of ids.

use std::{
    collections::{BinaryHeap, HashMap, HashSet},
    ops::ControlFlow,
};

use bezoar_core::catalogue::Filter;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::filter_bounds::{chosen_causes, first_since, unended};

/// Up to so many causes are walked each for itself; above, everything is walked.
const MERGE_LIMIT: usize = 2_000;

const COLUMNS: &str =
    "id, cause, at, failed, replayed, operation, edited_as IS NOT NULL, unapproved";

/// What a filter asks about a dead letter.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) id: i64,
    pub(crate) cause: Option<i64>,
    at: i64,
    failed: i64,
    replayed: i64,
    operation: Option<i64>,
    edited: bool,
    unapproved: bool,
}

/// A filter as the database sees it.
#[derive(Debug)]
pub(crate) struct Sieve {
    filter: Filter,
    /// The causes that fit with their counts; `None` if every one does.
    pub(crate) causes: Option<HashMap<i64, u64>>,
    /// From this id, to before that one.
    ids: (i64, i64),
    unended: HashSet<i64>,
}

impl Sieve {
    pub(crate) fn new(connection: &Connection, filter: &Filter) -> rusqlite::Result<Self> {
        let bound = |time: Option<jiff::Timestamp>, open| match time {
            Some(time) => first_since(connection, time.as_millisecond()),
            None => Ok(open),
        };
        Ok(Self {
            causes: chosen_causes(connection, filter)?,
            ids: (bound(filter.since, i64::MIN)?, bound(filter.until, i64::MAX)?),
            unended: unended(connection)?,
            filter: filter.clone(),
        })
    }

    /// Whether the causes alone decide.
    pub(crate) fn is_of_causes_only(&self) -> bool {
        self.filter.is_of_causes_only()
    }

    fn fits(&self, glance: &Glance) -> bool {
        let Filter { since, until, min_attempts, replayed, state, .. } = &self.filter;
        let of_cause = |causes: &HashMap<i64, u64>| {
            glance.cause.is_some_and(|cause| causes.contains_key(&cause))
        };
        self.causes.as_ref().is_none_or(of_cause)
            && since.is_none_or(|since| glance.at >= since.as_millisecond())
            && until.is_none_or(|until| glance.at < until.as_millisecond())
            && min_attempts.is_none_or(|least| glance.failed >= i64::from(least))
            && replayed.is_none_or(|was| (glance.replayed > 0) == was)
            && state.is_none_or(|state| self.state(glance) == state)
    }

    /// As of [`DeadLetterState::as_str`](bezoar_core::catalogue::DeadLetterState::as_str).
    pub(crate) fn state(&self, glance: &Glance) -> &'static str {
        match glance {
            Glance { operation: Some(id), .. } if self.unended.contains(id) => "taken",
            Glance { edited: true, .. } => "edited",
            Glance { unapproved: true, .. } => "unapproved",
            _ => "open",
        }
    }

    /// Shows rows from the latest to the oldest, below an id, and whether each fits.
    pub(crate) fn walk(
        &self,
        connection: &Connection,
        before: i64,
        mut visit: impl FnMut(&Glance, bool) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let mut visit = |glance: &Glance| visit(glance, self.fits(glance));
        let ids = (self.ids.0, self.ids.1.min(before));
        if self.filter.state == Some("taken") && self.unended.is_empty() {
            return Ok(()); // what the index has was taken by operations that have ended
        }
        match self.way() {
            Way::Equal(index, column, value) => {
                let condition = format!("INDEXED BY {index} WHERE {column} = ?3");
                walk_index(connection, &condition, ids, Some(&value), &mut visit)
            }
            Way::Partial(condition) => walk_index(connection, condition, ids, None, &mut visit),
            Way::Causes(causes) if causes.len() == 1 => {
                let condition = "INDEXED BY bezoar_dead_by_cause WHERE cause = ?3";
                walk_index(connection, condition, ids, Some(&causes[0]), &mut visit)
            }
            Way::Causes(causes) => merge(connection, &causes, ids, &mut visit),
            Way::All => walk_index(connection, "NOT INDEXED WHERE true", ids, None, &mut visit),
        }
    }

    /// Shows every row that may fit in whatever order is quickest.
    pub(crate) fn sweep(
        &self,
        connection: &Connection,
        mut visit: impl FnMut(&Glance, bool) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let Way::Causes(causes) = self.way() else {
            return self.walk(connection, i64::MAX, visit);
        };
        let mut flow = ControlFlow::Continue(());
        for cause in &causes {
            let mut visit = |glance: &Glance| {
                flow = visit(glance, self.fits(glance));
                flow
            };
            let condition = "INDEXED BY bezoar_dead_by_cause WHERE cause = ?3";
            walk_index(connection, condition, self.ids, Some(cause), &mut visit)?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn way(&self) -> Way {
        let Filter { correlation_id, message_id, replayed, state, .. } = &self.filter;
        if let Some(id) = message_id {
            return Way::Equal("bezoar_dead_by_message", "message_id", id.to_string());
        }
        if let Some(id) = correlation_id {
            return Way::Equal("bezoar_dead_by_correlation", "correlation_id", id.to_string());
        }
        match (state, replayed) {
            (Some("taken"), _) => {
                return Way::Partial("INDEXED BY bezoar_dead_taken WHERE operation IS NOT NULL");
            }
            (Some("edited" | "unapproved"), _) => {
                return Way::Partial(
                    "INDEXED BY bezoar_dead_versions WHERE (edited_as IS NOT NULL OR unapproved = 1)",
                );
            }
            (_, Some(true)) => {
                return Way::Partial("INDEXED BY bezoar_dead_replayed WHERE replayed > 0");
            }
            _ => {}
        }
        match &self.causes {
            Some(causes) if causes.len() <= MERGE_LIMIT => {
                Way::Causes(causes.keys().copied().collect())
            }
            _ => Way::All,
        }
    }
}

enum Way {
    Equal(&'static str, &'static str, String),
    Partial(&'static str),
    Causes(Vec<i64>),
    All,
}

fn walk_index(
    connection: &Connection,
    condition: &str,
    (from, before): (i64, i64),
    value: Option<&dyn ToSql>,
    visit: &mut dyn FnMut(&Glance) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT {COLUMNS} FROM bezoar_dead {condition} AND id >= ?1 AND id < ?2 ORDER BY id DESC"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let mut rows = match value {
        Some(value) => select.query(params![from, before, value])?,
        None => select.query([from, before])?,
    };
    while let Some(row) = rows.next()? {
        if visit(&glance(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Walks several causes as if they were one: the latest of each is known, and the latest of those is next. Unlike
/// a walk over everything it does not depend on where in the whole they are.
fn merge(
    connection: &Connection,
    causes: &[i64],
    (from, before): (i64, i64),
    visit: &mut dyn FnMut(&Glance) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT {COLUMNS} FROM bezoar_dead INDEXED BY bezoar_dead_by_cause
         WHERE cause = ?1 AND id >= ?2 AND id < ?3 ORDER BY id DESC LIMIT 1"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let mut latest =
        |cause: i64, before: i64| select.query_row([cause, from, before], glance).optional();
    let mut heads = BinaryHeap::with_capacity(causes.len());
    let mut glances = HashMap::with_capacity(causes.len());
    for &cause in causes {
        if let Some(head) = latest(cause, before)? {
            heads.push((head.id, cause));
            glances.insert(cause, head);
        }
    }
    while let Some((id, cause)) = heads.pop() {
        let Some(head) = glances.remove(&cause) else { break };
        if visit(&head).is_break() {
            break;
        }
        if let Some(next) = latest(cause, id)? {
            heads.push((next.id, cause));
            glances.insert(cause, next);
        }
    }
    Ok(())
}

fn glance(row: &Row<'_>) -> rusqlite::Result<Glance> {
    Ok(Glance {
        id: row.get(0)?,
        cause: row.get(1)?,
        at: row.get(2)?,
        failed: row.get(3)?,
        replayed: row.get(4)?,
        operation: row.get(5)?,
        edited: row.get(6)?,
        unapproved: row.get(7)?,
    })
}
