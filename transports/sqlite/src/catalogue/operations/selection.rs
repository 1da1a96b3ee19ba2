//! What a plan is made for, as it is at one moment.

use std::ops::ControlFlow;

use bezoar_core::{
    DeadLetterId,
    catalogue::{CatalogueError, Filter, OperationPlan, SELECTION_LIMIT, Selection},
};
use rusqlite::Connection;

use crate::catalogue::{Found, dead_letters::filter_walk::Sieve};

/// What was chosen.
pub(crate) struct Chosen {
    /// In order, each once.
    pub(crate) ids: Vec<i64>,
    /// How many fit and cannot take part.
    pub(crate) refused: u64,
    pub(crate) missing: Missing,
}

/// What to do about one that is not there.
#[derive(Clone, Copy)]
pub(crate) enum Missing {
    /// Somebody named it.
    IsAnError,
    /// It was there when it was chosen.
    IsRefused,
}

pub(crate) fn choose(connection: &Connection, selection: &Selection) -> Found<Chosen> {
    let chosen = match selection {
        Selection::Ids(ids) => named(ids),
        Selection::Matching(filter) => fitting(connection, filter)?,
    };
    if chosen.ids.len() > SELECTION_LIMIT {
        let why = format!("more than {SELECTION_LIMIT} at once; narrow the selection");
        return Ok(Err(CatalogueError::Conflict(why)));
    }
    Ok(Ok(chosen))
}

fn named(ids: &[DeadLetterId]) -> Chosen {
    let mut ids: Vec<_> = ids.iter().map(|DeadLetterId(id)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    Chosen { ids, refused: 0, missing: Missing::IsAnError }
}

fn fitting(connection: &Connection, filter: &Filter) -> rusqlite::Result<Chosen> {
    let sieve = Sieve::new(connection, filter)?;
    let (mut ids, mut refused) = (Vec::new(), 0);
    sieve.sweep(connection, |glance, fits| {
        match fits.then(|| sieve.state(glance)) {
            Some("open") => ids.push(glance.id),
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
    Ok(Chosen { ids, refused, missing: Missing::IsRefused })
}

/// What can be told before anything is taken; named ones may yet be refused.
pub(crate) fn unexpected(plan: &OperationPlan, chosen: &Chosen) -> Result<(), CatalogueError> {
    match chosen.missing {
        Missing::IsRefused => plan.check_expected(chosen.ids.len() as u64),
        Missing::IsAnError => Ok(()),
    }
}
