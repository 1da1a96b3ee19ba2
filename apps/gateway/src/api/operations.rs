//! `/v1/replays` and `/v1/discards`: operations are listed, started, paused and cancelled.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::catalogue::{
    CatalogueError, Operation, OperationCommand, OperationId, OperationKind, OperationState, Verb,
};

use super::{
    Problem,
    caller::Caller,
    filter,
    filter::QueryPairs,
    input,
    input::Input,
    parameters::{IdPath, Paging},
    segment::Segment,
};
use crate::{
    api_types::{self, OperationCommandRequest, OperationItem, Page},
    app::App,
    config::Role,
};

/// The default and the maximum number of operations on a page.
const PAGE: (u32, u32) = (100, 1_000);
/// How many of the latest operations can be listed.
const HISTORY: u32 = 1_000;
/// How many messages of an operation a page has.
const ITEMS: u32 = 1_000;

/// Lists replays, newest first.
#[utoipa::path(
    get, path = "/v1/replays", operation_id = "list_replays", tag = "operations", params(Paging),
    responses((status = 200, description = "Success.", body = Page<api_types::Operation>))
)]
pub(super) async fn list_replays(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Page<api_types::Operation>>, Problem> {
    list(&app, &caller, query, api_types::OperationKind::Replay).await
}

/// Lists discards, newest first.
#[utoipa::path(
    get, path = "/v1/discards", operation_id = "list_discards", tag = "operations", params(Paging),
    responses((status = 200, description = "Success.", body = Page<api_types::Operation>))
)]
pub(super) async fn list_discards(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Page<api_types::Operation>>, Problem> {
    list(&app, &caller, query, api_types::OperationKind::Discard).await
}

/// A page of what the caller may see, out of the latest operations.
async fn list(
    app: &App,
    caller: &Caller,
    query: QueryPairs,
    kind: api_types::OperationKind,
) -> Result<Json<Page<api_types::Operation>>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (mut limit, mut after) = (PAGE.0, None);
    for (name, value) in filter::pairs(query)? {
        match name.as_str() {
            "limit" => limit = filter::limit(&value, PAGE.1)?,
            "after" => {
                after = Some(value.parse::<OperationId>().map_err(Problem::unknown)?);
            }
            _ => return Err(Problem::bad_request("unknown parameter; use limit or after")),
        }
    }
    let all = app.catalogue().operations(HISTORY).await?;
    let is_later =
        |operation: &Operation| after.is_none_or(|after| operation.id.number() < after.number());
    let seen = all.iter().filter(|operation| sees(caller, operation) && is_later(operation));
    let shown =
        seen.map(|operation| told(app, operation)).filter(|operation| operation.kind == kind);
    let items: Vec<_> = shown.take(limit as usize).collect();
    let last = items.last().map(|operation| operation.id.clone());
    Ok(Json(Page::new(items, limit, last)))
}

/// Returns a replay or discard and its progress.
#[utoipa::path(
    get, path = "/v1/replays/{id}", operation_id = "get_operation", tag = "operations",
    params(IdPath),
    responses((status = 200, description = "Success.", body = api_types::Operation))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<api_types::Operation>, Problem> {
    Ok(Json(told(&app, &seen(&app, &caller, &id, Role::Viewer).await?)))
}

/// Lists what became of each message, in order.
#[utoipa::path(
    get, path = "/v1/replays/{id}/messages", operation_id = "list_operation_messages", tag = "operations",
    params(IdPath, ("after" = Option<u64>, Query, description = "List messages after this position.")),
    responses((status = 200, description = "Success.", body = Page<OperationItem>))
)]
pub(super) async fn messages(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    query: QueryPairs,
) -> Result<Json<Page<OperationItem>>, Problem> {
    let operation = seen(&app, &caller, &id, Role::Viewer).await?;
    let after = match filter::pairs(query)?.as_slice() {
        [] => 0,
        [(name, value)] if name == "after" => filter::position(value)
            .ok_or_else(|| Problem::bad_request("after must be a position, a whole number"))?,
        _ => return Err(Problem::bad_request("the only parameter is after, a position")),
    };
    let items = app.catalogue().items(operation.id, after, ITEMS).await?;
    let last = items.last().map(|item| item.place.to_string());
    Ok(Json(Page::new(items.iter().map(Into::into).collect(), ITEMS, last)))
}

/// Starts, pauses, resumes or cancels a replay or discard.
#[utoipa::path(
    post, path = "/v1/replays/{id}", operation_id = "command_operation", tag = "operations",
    params(IdPath), request_body = OperationCommandRequest,
    responses((status = 200, description = "Success.", body = api_types::Operation))
)]
pub(super) async fn command(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    wanted: Input<OperationCommandRequest>,
) -> Result<Json<api_types::Operation>, Problem> {
    let wanted = wanted.read(&app, &caller, Role::Operator).await?;
    let operation = seen(&app, &caller, &id, Role::Operator).await?;
    let (verb, role) = match operation.kind {
        OperationKind::Replay { .. } => (Verb::Replay, Role::Operator),
        OperationKind::Discard => (Verb::Discard, Role::Admin),
    };
    caller.needs(role, None)?;
    let reason = input::reason(&wanted.reason)?;
    let (command, word) = (OperationCommand::from(wanted.command), wanted.command.as_str());
    let action = caller.action(verb, format!("operation {}: {word}", operation.id), reason);
    let operation = app.catalogue().command(operation.id, command, &action).await?;
    app.conductor.wake();
    Ok(Json(told(&app, &operation)))
}

pub(super) fn told(app: &App, operation: &Operation) -> api_types::Operation {
    let runs = operation.state == OperationState::Running;
    let waiting = app.conductor.waiting_for_canary(operation.id).filter(|_| runs);
    api_types::Operation::new(operation, waiting)
}

/// An operation whose queues the caller may all see; others are reported as not found.
async fn seen(app: &App, caller: &Caller, id: &str, role: Role) -> Result<Operation, Problem> {
    caller.needs(role, None)?;
    let id = id.parse::<OperationId>().map_err(Problem::unknown)?;
    let operation = app.catalogue().operation(id).await?;
    if !sees(caller, &operation) {
        return Err(CatalogueError::NoOperation(id).into());
    }
    Ok(operation)
}

/// An operation without messages has no queue, and is visible only to callers who may see all queues.
pub(super) fn sees(caller: &Caller, operation: &Operation) -> bool {
    let queues = &operation.queues;
    queues.iter().all(|(queue, _)| caller.sees(queue))
        && (!queues.is_empty() || caller.needs_everywhere(Role::Viewer).is_ok())
}
