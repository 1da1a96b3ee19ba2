//! Resolves the selection of a plan at one moment.

use std::{collections::BTreeMap, ops::ControlFlow};

use bezoar_core::{
    DeadLetterId,
    catalogue::{
        CatalogueError, Filter, HeldLetters, OperationId, OperationKind, OperationPlan,
        SELECTION_LIMIT, Selection,
    },
};
use rusqlite::{Connection, OptionalExtension};

use crate::catalogue::{Found, dead_letters::filter_walk::Sieve};

/// The dead letters of a selection.
pub(crate) struct Chosen {
    /// The ids in order, each once.
    pub(crate) ids: Vec<i64>,
    /// How many match but cannot be selected.
    pub(crate) refused: u64,
    /// The operations that hold some of those, and how many.
    pub(crate) held: BTreeMap<i64, u64>,
    pub(crate) missing: Missing,
}

impl Chosen {
    /// Everything except the ids, for the pieces of a plan.
    pub(crate) fn without_ids(&self) -> Self {
        Self {
            ids: Vec::new(),
            refused: self.refused,
            held: self.held.clone(),
            missing: self.missing,
        }
    }
}

/// What to do about a missing dead letter.
#[derive(Clone, Copy)]
pub(crate) enum Missing {
    /// An error, because it was selected by its id.
    IsAnError,
    /// Refused, because it existed when it was chosen.
    IsRefused,
}

pub(crate) fn choose(connection: &Connection, plan: &OperationPlan) -> Found<Chosen> {
    let chosen = match &plan.selection {
        Selection::Ids(ids) => named(connection, ids)?,
        Selection::Matching(filter) => fitting(connection, filter, plan.kind)?,
    };
    if chosen.ids.len() > SELECTION_LIMIT {
        let problem =
            format!("more than {SELECTION_LIMIT} dead letters at once; narrow the selection");
        return Ok(Err(CatalogueError::Conflict(problem)));
    }
    if plan.held == HeldLetters::Refuse && !chosen.held.is_empty() {
        return Ok(Err(held_error(&chosen.held)));
    }
    Ok(Ok(chosen))
}

pub(crate) fn held_error(held: &BTreeMap<i64, u64>) -> CatalogueError {
    let held =
        held.iter().map(|(holder, count)| (OperationId::from_number(*holder), *count)).collect();
    CatalogueError::Held { held }
}

fn named(connection: &Connection, ids: &[DeadLetterId]) -> rusqlite::Result<Chosen> {
    let mut ids: Vec<_> = ids.iter().map(|id| id.number()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut held = BTreeMap::new();
    for &id in &ids {
        if let Some(holder) = holder(connection, id)? {
            *held.entry(holder).or_default() += 1;
        }
    }
    Ok(Chosen { ids, refused: 0, held, missing: Missing::IsAnError })
}

/// The operation that holds a dead letter.
pub(crate) fn holder(connection: &Connection, id: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT o.id FROM bezoar_dead AS d JOIN bezoar_operations AS o ON o.id = d.operation
             WHERE d.id = ?1 AND o.state NOT IN ('cancelled', 'ended', 'void')",
        )?
        .query_row([id], |row| row.get(0))
        .optional()
}

/// A replay selects open dead letters; a discard selects everything that is listed, unless an operation
/// holds it.
fn fitting(
    connection: &Connection,
    filter: &Filter,
    kind: OperationKind,
) -> rusqlite::Result<Chosen> {
    let sieve = Sieve::new(connection, filter)?;
    let (mut ids, mut refused, mut held) = (Vec::new(), 0, BTreeMap::new());
    sieve.sweep(connection, |glance, fits| {
        match fits.then(|| sieve.state(glance)) {
            Some("open") => ids.push(glance.id),
            Some("held") => {
                refused += 1;
                if let Some(holder) = glance.operation {
                    *held.entry(holder).or_default() += 1;
                }
            }
            Some(_) if kind == OperationKind::Discard => ids.push(glance.id),
            Some(_) => refused += 1,
            None => {}
        }
        if ids.len() <= SELECTION_LIMIT {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    ids.sort_unstable();
    Ok(Chosen { ids, refused, held, missing: Missing::IsRefused })
}

/// Compares the expected number before anything is taken. Letters selected by id may still be
/// refused later.
pub(crate) fn unexpected(plan: &OperationPlan, chosen: &Chosen) -> Result<(), CatalogueError> {
    match chosen.missing {
        Missing::IsRefused => plan.check_expected(chosen.ids.len() as u64),
        Missing::IsAnError => Ok(()),
    }
}
