//! `/v1/causes`: dead letters grouped by cause.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::catalogue::{self, CatalogueError, CauseId, CauseState, Filter, Verb};

use super::{
    Problem,
    caller::Caller,
    filter,
    filter::QueryPairs,
    input::Input,
    parameters::{IdPath, Limit},
    segment::Segment,
};
use crate::{
    api_types::{Cause, DeadLetterFilter, MarkCauseRequest, Page},
    app::App,
    config::Role,
};

/// The default and the maximum number of rows.
const PAGE: (u32, u32) = (50, 1_000);
/// The longest note.
const NOTE_LIMIT_CHARS: usize = 1_000;

/// Groups dead letters by cause, largest group first.
#[utoipa::path(
    get, path = "/v1/causes", operation_id = "list_causes", tag = "dead letters",
    params(DeadLetterFilter, Limit),
    responses((status = 200, description = "Success.", body = Page<Cause>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Page<Cause>>, Problem> {
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
    Ok(Json(Page::whole(seen.map(Into::into).collect())))
}

/// Returns a cause, even if it has no dead letters left.
#[utoipa::path(
    get, path = "/v1/causes/{id}", operation_id = "get_cause", tag = "dead letters", params(IdPath),
    responses((status = 200, description = "Success.", body = Cause))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(cause): Segment,
) -> Result<Json<Cause>, Problem> {
    caller.needs(Role::Viewer, None)?;
    Ok(Json((&seen(&app, &caller, cause).await?).into()))
}

/// A cause that the caller may see; others are reported as not found.
async fn seen(app: &App, caller: &Caller, id: String) -> Result<catalogue::Cause, Problem> {
    let id = CauseId::new(id).map_err(Problem::unknown)?;
    let filter = Filter { cause: Some(id.clone()), ..Filter::default() };
    let mut found = app.catalogue().causes(&filter, 1).await?.into_iter();
    let seen = found.find(|cause| caller.sees(&cause.queue));
    seen.ok_or_else(|| CatalogueError::NoCause(id).into())
}

/// Marks a cause as open, acknowledged or resolved, with a note.
#[utoipa::path(
    post, path = "/v1/causes/{id}", operation_id = "mark_cause", tag = "dead letters",
    params(IdPath), request_body = MarkCauseRequest,
    responses((status = 200, description = "Success.", body = Cause))
)]
pub(super) async fn mark(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(cause): Segment,
    mark: Input<MarkCauseRequest>,
) -> Result<Json<Cause>, Problem> {
    let mark = mark.read(&app, &caller, Role::Operator).await?;
    let cause = seen(&app, &caller, cause).await?.id;
    if mark.note.as_ref().is_some_and(|note| note.chars().count() > NOTE_LIMIT_CHARS) {
        let detail = format!("a note has at most {NOTE_LIMIT_CHARS} characters");
        return Err(Problem::bad_request(detail));
    }
    let state = CauseState::from(mark.state);
    let note = mark.note.clone().unwrap_or_default();
    let action = caller.action(Verb::Mark, format!("cause {cause}: {}", state.as_str()), note);
    let marked = app.catalogue().mark(&cause, state, mark.note.as_deref(), &action).await?;
    Ok(Json((&marked).into()))
}
