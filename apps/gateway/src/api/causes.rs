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
    parameters::{IdPath, Paging},
    segment::Segment,
};
use crate::{
    api_types::{Cause, DeadLetterFilter, MarkCauseRequest, Page},
    app::App,
    config::Role,
};

/// The default and the maximum number of rows.
const PAGE: (u32, u32) = (50, 1_000);
/// How many of the largest causes can be listed.
const LARGEST: u32 = 1_000;
/// The longest note.
const NOTE_LIMIT_CHARS: usize = 1_000;

/// Groups dead letters by cause, largest group first. A cause whose size changes between two pages may be listed twice or
/// not at all.
#[utoipa::path(
    get, path = "/v1/causes", operation_id = "list_causes", tag = "dead letters",
    params(DeadLetterFilter, Paging),
    responses((status = 200, description = "Success.", body = Page<Cause>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Page<Cause>>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (paging, rest): (Vec<_>, Vec<_>) = filter::pairs(query)?
        .into_iter()
        .partition(|(name, _)| matches!(name.as_str(), "limit" | "after"));
    let (mut limit, mut after) = (PAGE.0, None);
    for (name, value) in paging {
        match name.as_str() {
            "limit" => limit = filter::limit(&value, PAGE.1)?,
            _ => after = Some(CauseId::new(value).map_err(Problem::unknown)?),
        }
    }
    let pairs = rest.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let filter = filter::from_pairs(pairs, &caller, &app)?;
    app.covers(&filter, |queue| caller.sees(queue)).await?;
    let causes = app.catalogue().causes(&filter, LARGEST).await?;
    let seen: Vec<_> = causes.iter().filter(|cause| caller.sees(&cause.queue)).collect();
    let rest = match &after {
        Some(after) => rest_after(&seen, after)?,
        None => &seen[..],
    };
    let items: Vec<_> = rest.iter().take(limit as usize).map(|cause| Cause::from(*cause)).collect();
    let next = items.last().filter(|_| rest.len() > items.len()).map(|cause| cause.id.clone());
    Ok(Json(Page { items, next }))
}

/// The causes after one of them.
fn rest_after<'a, 'b>(
    causes: &'a [&'b catalogue::Cause],
    after: &CauseId,
) -> Result<&'a [&'b catalogue::Cause], Problem> {
    let place = causes.iter().position(|cause| cause.id == *after);
    let gone =
        || Problem::unknown(format!("cause {after} is not in the list any more; start again"));
    place.map(|place| &causes[place + 1..]).ok_or_else(gone)
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
