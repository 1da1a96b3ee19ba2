//! Resolves the selection of a plan at one moment.

use std::collections::BTreeMap;

use bezoar_core::{
    DeadLetterId,
    catalogue::{
        CatalogueError, HeldLetters, OperationId, OperationPlan, SELECTION_LIMIT, Selection,
    },
};
use sqlx::Row;

use crate::catalogue::{Found, dead_letters::filter::Sieve, session::Session};

/// The dead letters of a selection.
#[derive(Debug)]
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
        let (refused, held, missing) = (self.refused, self.held.clone(), self.missing);
        Self { ids: Vec::new(), refused, held, missing }
    }
}

/// What to do about a missing dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// An error, because it was selected by its id.
    IsAnError,
    /// Refused, because it existed when it was chosen.
    IsRefused,
}

pub(crate) async fn choose(session: &mut Session<'_>, plan: &OperationPlan) -> Found<Chosen> {
    let chosen = match &plan.selection {
        Selection::Ids(ids) => named(session, ids).await?,
        Selection::Matching(filter) => {
            let sieve = Sieve::new(session, filter).await?;
            let (ids, refused, held) = sieve.select(session, plan.kind).await?;
            Chosen { ids, refused, held, missing: Missing::IsRefused }
        }
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

async fn named(session: &mut Session<'_>, ids: &[DeadLetterId]) -> sqlx::Result<Chosen> {
    let mut ids: Vec<_> = ids.iter().map(|id| id.number()).collect();
    ids.sort_unstable();
    ids.dedup();
    let held = holders(session, ids.clone()).await?;
    Ok(Chosen { ids, refused: 0, held, missing: Missing::IsAnError })
}

/// The operations that hold some of these dead letters, and how many each.
pub(crate) async fn holders(
    session: &mut Session<'_>,
    ids: Vec<i64>,
) -> sqlx::Result<BTreeMap<i64, u64>> {
    let select = session
        .query(
            "SELECT o.id, count(*) FROM {schema}.dead AS d JOIN {schema}.operations AS o ON o.id = d.operation
             WHERE d.id = ANY ($1) AND o.state NOT IN ('cancelled', 'ended', 'void') GROUP BY o.id",
        )
        .bind(ids);
    let rows = session.all(select).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)?.unsigned_abs()))).collect()
}

/// Compares the expected number before anything is taken. Letters selected by id may still be refused later.
pub(crate) fn unexpected(plan: &OperationPlan, chosen: &Chosen) -> Result<(), CatalogueError> {
    match chosen.missing {
        Missing::IsRefused => plan.check_expected(chosen.ids.len() as u64),
        Missing::IsAnError => Ok(()),
    }
}
