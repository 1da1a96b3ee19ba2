//! Finds the dead letters that match a filter.
//!
//! Queue, type, kind, code and cause are attributes of causes, of which there are few: the causes that fit are
//! chosen first. Then the shortest way to their dead letters is walked, newest death first, and what is left of the
//! filter is asked of each row. Every index has the time of death and then the id, so that no way sorts. No index
//! has all dead letters: those that died here are in the order of their ids, and only the others have an index.

use std::{
    collections::{BinaryHeap, HashMap, HashSet},
    ops::ControlFlow,
};

use bezoar_core::catalogue::Filter;
use rusqlite::{Connection, OptionalExtension, Row, Rows, ToSql, params};

use super::filter_bounds::{chosen_causes, first_since, unended};

/// Up to this many causes are read one by one and merged; with more, all rows are read.
const MERGE_LIMIT: usize = 2_000;

const COLUMNS: &str =
    "id, cause, at, failed, replayed, operation, edited_as IS NOT NULL, unapproved, died_at";

/// The columns of a dead letter that filters need.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) id: i64,
    pub(crate) cause: Option<i64>,
    at: i64,
    died_at: i64,
    failed: i64,
    replayed: i64,
    pub(crate) operation: Option<i64>,
    edited: bool,
    unapproved: bool,
}

impl Glance {
    fn position(&self) -> Position {
        (self.died_at, self.id)
    }
}

/// A filter, translated to values of the database.
#[derive(Debug)]
pub(crate) struct Sieve {
    filter: Filter,
    /// The matching causes with their counts; `None` if all match.
    pub(crate) causes: Option<HashMap<i64, u64>>,
    /// Dead-lettered at or after the first time, and before the second.
    times: (i64, i64),
    unended: HashSet<i64>,
}

impl Sieve {
    pub(crate) fn new(connection: &Connection, filter: &Filter) -> rusqlite::Result<Self> {
        let bound = |time: Option<jiff::Timestamp>, open| {
            time.map_or(open, |time: jiff::Timestamp| time.as_millisecond())
        };
        Ok(Self {
            causes: chosen_causes(connection, filter)?,
            times: (bound(filter.since, i64::MIN), bound(filter.until, i64::MAX)),
            unended: unended(connection)?,
            filter: filter.clone(),
        })
    }

    /// Whether all conditions are attributes of causes.
    pub(crate) fn is_of_causes_only(&self) -> bool {
        self.filter.is_of_causes_only()
    }

    fn fits(&self, glance: &Glance) -> bool {
        let Filter { since, until, arrived_before, min_attempts, replayed, state, .. } =
            &self.filter;
        let of_cause = |causes: &HashMap<i64, u64>| {
            glance.cause.is_some_and(|cause| causes.contains_key(&cause))
        };
        self.causes.as_ref().is_none_or(of_cause)
            && since.is_none_or(|since| glance.died_at >= since.as_millisecond())
            && until.is_none_or(|until| glance.died_at < until.as_millisecond())
            && arrived_before.is_none_or(|before| glance.at < before.as_millisecond())
            && min_attempts.is_none_or(|least| glance.failed >= i64::from(least))
            && replayed.is_none_or(|was| (glance.replayed > 0) == was)
            && state.is_none_or(|state| self.state(glance) == state)
    }

    /// The name of the state, as
    /// [`DeadLetterState::as_str`](bezoar_core::catalogue::DeadLetterState::as_str) returns it.
    pub(crate) fn state(&self, glance: &Glance) -> &'static str {
        match glance {
            Glance { operation: Some(id), .. } if self.unended.contains(id) => "held",
            Glance { edited: true, .. } => "edited",
            Glance { unapproved: true, .. } => "unapproved",
            _ => "open",
        }
    }

    /// Visits rows from the newest to the oldest, after a position, with whether each one matches.
    pub(crate) fn walk(
        &self,
        connection: &Connection,
        after: Position,
        mut visit: impl FnMut(&Glance, bool) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let mut visit = |glance: &Glance| visit(glance, self.fits(glance));
        let span = (self.times.0, after.min((self.times.1, i64::MIN)));
        if self.filter.state == Some("held") && self.unended.is_empty() {
            return Ok(()); // the operations in the index have ended and hold nothing
        }
        match self.way() {
            Way::Equal(index, column, value) => {
                let condition = format!("INDEXED BY {index} WHERE {column} = ?4");
                walk_index(connection, &condition, span, Some(&value), &mut visit)
            }
            Way::Partial(condition) => walk_index(connection, condition, span, None, &mut visit),
            Way::Causes(causes) if causes.len() == 1 => {
                let condition = "INDEXED BY bezoar_dead_by_cause WHERE cause = ?4";
                walk_index(connection, condition, span, Some(&causes[0]), &mut visit)
            }
            Way::Causes(causes) => merge(connection, &causes, span, &mut visit),
            Way::All => walk_all(connection, span, &mut visit),
        }
    }

    /// Visits every row that may match, in the fastest order.
    pub(crate) fn sweep(
        &self,
        connection: &Connection,
        mut visit: impl FnMut(&Glance, bool) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let causes = match (self.way(), self.filter.arrived_before) {
            (Way::Causes(causes), _) => causes,
            (Way::All, Some(before)) => {
                return self.walk_arrivals(connection, before.as_millisecond(), visit);
            }
            _ => return self.walk(connection, END, visit),
        };
        let mut flow = ControlFlow::Continue(());
        for cause in &causes {
            let mut visit = |glance: &Glance| {
                flow = visit(glance, self.fits(glance));
                flow
            };
            let condition = "INDEXED BY bezoar_dead_by_cause WHERE cause = ?4";
            let span = (self.times.0, (self.times.1, i64::MIN));
            walk_index(connection, condition, span, Some(cause), &mut visit)?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the rows that arrived before a time, in the order of arrival, which is the order of
    /// ids.
    fn walk_arrivals(
        &self,
        connection: &Connection,
        before: i64,
        mut visit: impl FnMut(&Glance, bool) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let sql =
            format!("SELECT {COLUMNS} FROM bezoar_dead NOT INDEXED WHERE id < ?1 ORDER BY id");
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query([first_since(connection, before)?])?;
        while let Some(row) = rows.next()? {
            let glance = glance(row)?;
            if visit(&glance, self.fits(&glance)).is_break() {
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
            (Some("held"), _) => {
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

/// A time of dead-lettering and an id: lists are ordered by this.
type Position = (i64, i64);

/// The position before the newest row.
const END: Position = (i64::MAX, i64::MAX);

enum Way {
    Equal(&'static str, &'static str, String),
    Partial(&'static str),
    Causes(Vec<i64>),
    All,
}

fn walk_index(
    connection: &Connection,
    condition: &str,
    (since, before): (i64, Position),
    value: Option<&dyn ToSql>,
    visit: &mut dyn FnMut(&Glance) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT {COLUMNS} FROM bezoar_dead {condition}
         AND died_at >= ?1 AND (died_at, id) < (?2, ?3) ORDER BY died_at DESC, id DESC"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let mut rows = match value {
        Some(value) => select.query(params![since, before.0, before.1, value])?,
        None => select.query([since, before.0, before.1])?,
    };
    while let Some(row) = rows.next()? {
        if visit(&glance(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Walks everything by id, which is the order of arrival, and merges those that arrived later than they died. A row
/// that arrived at some time is followed only by deaths up to that time, so what died later can be shown before it.
fn walk_all(
    connection: &Connection,
    (since, before): (i64, Position),
    visit: &mut dyn FnMut(&Glance) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let same_time = before.1.min(first_since(connection, before.0.saturating_add(1))?);
    let end = same_time.max(first_since(connection, before.0)?);
    let mut arrived = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM bezoar_dead NOT INDEXED WHERE id >= ?1 AND id < ?2 ORDER BY id DESC"
    ))?;
    let mut late = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM bezoar_dead INDEXED BY bezoar_dead_late_by_death
         WHERE died_at < at AND died_at >= ?1 AND (died_at, id) < (?2, ?3)
         ORDER BY died_at DESC, id DESC"
    ))?;
    let mut arrived = arrived.query([first_since(connection, since)?, end])?;
    let mut late = late.query([since, before.0, before.1])?;
    let (mut next_arrived, mut next_late) = (next(&mut arrived)?, next(&mut late)?);
    loop {
        let bound = next_arrived.as_ref().map(|glance| (glance.at, glance.id));
        let shown = if next_late.as_ref().map(Glance::position) > bound {
            std::mem::replace(&mut next_late, next(&mut late)?)
        } else {
            let glance = std::mem::replace(&mut next_arrived, next(&mut arrived)?);
            match glance {
                None => return Ok(()),
                Some(glance) if glance.died_at < glance.at => continue, // one of the late ones
                ordinary => ordinary,
            }
        };
        if shown.is_some_and(|glance| visit(&glance).is_break()) {
            return Ok(());
        }
    }
}

fn next(rows: &mut Rows<'_>) -> rusqlite::Result<Option<Glance>> {
    rows.next()?.map(glance).transpose()
}

/// Merges the rows of several causes: of the latest row of each cause, the latest is next. Unlike a walk over all
/// rows, its cost does not depend on how many other rows lie between.
fn merge(
    connection: &Connection,
    causes: &[i64],
    (since, before): (i64, Position),
    visit: &mut dyn FnMut(&Glance) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT {COLUMNS} FROM bezoar_dead INDEXED BY bezoar_dead_by_cause
         WHERE cause = ?1 AND died_at >= ?2 AND (died_at, id) < (?3, ?4)
         ORDER BY died_at DESC, id DESC LIMIT 1"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let mut latest = |cause: i64, before: Position| {
        select.query_row([cause, since, before.0, before.1], glance).optional()
    };
    let mut heads = BinaryHeap::with_capacity(causes.len());
    let mut glances = HashMap::with_capacity(causes.len());
    for &cause in causes {
        if let Some(head) = latest(cause, before)? {
            heads.push((head.position(), cause));
            glances.insert(cause, head);
        }
    }
    while let Some((position, cause)) = heads.pop() {
        let Some(head) = glances.remove(&cause) else { break };
        if visit(&head).is_break() {
            break;
        }
        if let Some(next) = latest(cause, position)? {
            heads.push((next.position(), cause));
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
        died_at: row.get(8)?,
    })
}
