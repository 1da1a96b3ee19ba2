//! `/v1/causes`: dead letters grouped by cause.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::catalogue::{CatalogueError, CauseId, CauseState, Filter, Verb};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Problem, caller::Caller, filter, filter::QueryPairs, input::Input, segment::Segment, views,
};
use crate::{app::App, config::Role};

/// The default and the maximum number of rows.
const PAGE: (u32, u32) = (50, 1_000);
/// The longest note.
const NOTE_LIMIT_CHARS: usize = 1_000;

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (limits, rest): (Vec<_>, Vec<_>) =
        filter::pairs(query)?.into_iter().partition(|(name, _)| name == "limit");
    let limit = match limits.last() {
        Some((_, value)) => filter::limit(value, PAGE.1)?,
        None => PAGE.0,
    };
    let pairs = rest.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let filter = filter::from_pairs(pairs, &caller, &app)?;
    app.covers(&filter, |queue| caller.sees(queue)).await?;
    let causes = app.catalogue().causes(&filter, limit).await?;
    let seen = causes.iter().filter(|cause| caller.sees(&cause.queue));
    Ok(Json(json!({ "causes": seen.map(views::cause).collect::<Vec<_>>() })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    state: Opinion,
    /// Unchanged if absent; an empty one removes it.
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Opinion {
    Open,
    Acknowledged,
    Resolved,
}

/// Marks a cause as open, acknowledged or resolved, with a note.
pub(super) async fn mark(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(cause): Segment,
    Input(mark): Input<Mark>,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Operator, None)?;
    let cause = CauseId::new(cause)?;
    let filter = Filter { cause: Some(cause.clone()), ..Filter::default() };
    let found = app.catalogue().causes(&filter, 1).await?;
    if !found.iter().any(|cause| caller.sees(&cause.queue)) {
        return Err(CatalogueError::NoCause(cause).into());
    }
    if mark.note.as_ref().is_some_and(|note| note.chars().count() > NOTE_LIMIT_CHARS) {
        let detail = format!("a note has at most {NOTE_LIMIT_CHARS} characters");
        return Err(Problem::bad_request(detail));
    }
    let state = match mark.state {
        Opinion::Open => CauseState::Open,
        Opinion::Acknowledged => CauseState::Acknowledged,
        Opinion::Resolved => CauseState::Resolved,
    };
    let action =
        caller.action(Verb::Mark, format!("cause {cause}: {}", state.as_str()), String::new());
    let marked = app.catalogue().mark(&cause, state, mark.note.as_deref(), &action).await?;
    Ok(Json(views::cause(&marked)))
}
