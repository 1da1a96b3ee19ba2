//! `/v1/replays` and `/v1/discards`: operations are planned, run, paused, cancelled and listed.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use bezoar::{
    DeadLetterId,
    catalogue::{
        CatalogueError, Filter, HeldLetters, Operation, OperationCommand, OperationId,
        OperationKind, OperationPlan, OperationState, ReplayIds, Selection, Verb,
    },
};
use http::StatusCode;

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
    api_types::{
        self, DeadLetterFilter, DiscardRequest, OperationCommandRequest, OperationItem, Page,
        ReplayRequest,
    },
    app::App,
    config::Role,
};

/// The maximum number of ids in a request.
const IDS_LIMIT: usize = 10_000;
/// The maximum number of ids in an entry of the audit log.
const NAMED: usize = 100;
/// The default and the maximum number of operations on a page.
const PAGE: (u32, u32) = (100, 1_000);
/// How many of the latest operations can be listed.
const HISTORY: u32 = 1_000;
/// How many messages of an operation a page has.
const ITEMS: u32 = 1_000;
/// The maximum rate.
const RATE_LIMIT: f64 = 1_000_000.0;

/// Replays dead letters.
#[utoipa::path(
    post, path = "/v1/replays", operation_id = "replay_dead_letters", tag = "operations",
    request_body = ReplayRequest,
    responses(
        (status = 200, description = "Planned, or nothing to do.", body = api_types::Operation),
        (status = 202, description = "Started.", body = api_types::Operation),
    )
)]
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    wanted: Input<ReplayRequest>,
) -> Result<Response, Problem> {
    let wanted = wanted.read(&app, &caller, Role::Operator).await?;
    let reason = input::reason(&wanted.reason)?;
    if wanted.rate.is_some_and(|rate| !(rate > 0.0 && rate <= RATE_LIMIT)) {
        return Err(Problem::bad_request("rate must be a number of messages per second, above 0"));
    }
    if wanted.stop_after == Some(0) {
        return Err(Problem::bad_request("stop_after must be at least 1"));
    }
    let kind = OperationKind::Replay {
        canary: wanted.canary,
        per_second: wanted.rate,
        stop_after: wanted.stop_after,
        ids: if wanted.new_ids { ReplayIds::New } else { ReplayIds::Same },
    };
    let selection = selection(&app, &caller, wanted.ids, wanted.filter).await?;
    let held = held(wanted.skip_held);
    let plan = OperationPlan { kind, selection, expect: wanted.expect, held };
    begin(app, caller, plan, Verb::Replay, reason, wanted.plan).await
}

/// Discards dead letters for good.
#[utoipa::path(
    post, path = "/v1/discards", operation_id = "discard_dead_letters", tag = "operations",
    request_body = DiscardRequest,
    responses(
        (status = 200, description = "Planned, or nothing to do.", body = api_types::Operation),
        (status = 202, description = "Started.", body = api_types::Operation),
    )
)]
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    caller: Caller,
    wanted: Input<DiscardRequest>,
) -> Result<Response, Problem> {
    let wanted = wanted.read(&app, &caller, Role::Admin).await?;
    let reason = input::reason(&wanted.reason)?;
    if wanted.expect.is_none() && !wanted.plan {
        return Err(Problem::bad_request(
            "expect is required: the number of dead letters to discard; or plan it first",
        ));
    }
    let selection = selection(&app, &caller, wanted.ids, wanted.filter).await?;
    let plan = OperationPlan {
        kind: OperationKind::Discard,
        selection,
        expect: wanted.expect,
        held: held(wanted.skip_held),
    };
    begin(app, caller, plan, Verb::Discard, reason, wanted.plan).await
}

fn held(skip: bool) -> HeldLetters {
    if skip { HeldLetters::Skip } else { HeldLetters::Refuse }
}

/// The selection; the caller must be allowed to see every dead letter that is given by id.
async fn selection(
    app: &App,
    caller: &Caller,
    ids: Option<Vec<String>>,
    filter: Option<DeadLetterFilter>,
) -> Result<Selection, Problem> {
    match (ids, filter) {
        (Some(ids), None) if ids.len() > IDS_LIMIT => Err(Problem::bad_request(format!(
            "the request has {} ids, the limit is {IDS_LIMIT}; use a filter",
            ids.len()
        ))),
        (Some(ids), None) if !ids.is_empty() => {
            let ids = parsed(&ids)?;
            if let Some(queues) = caller.limited(None)? {
                for id in &ids {
                    let queue = app.catalogue().record_without_body(*id).await?.entry.queue;
                    if !queues.contains(&queue) {
                        return Err(CatalogueError::NoDeadLetter(*id).into());
                    }
                }
            }
            Ok(Selection::Ids(ids))
        }
        (None, Some(filter)) => {
            let filter = filter::from_request(&filter, caller, app)?;
            app.covers(&filter, |queue| caller.sees(queue)).await?;
            known_cause(app, caller, &filter).await?;
            Ok(Selection::Matching(filter))
        }
        _ => Err(Problem::bad_request("pass either ids or a filter ({} matches all)")),
    }
}

/// Fails if the filter names a cause that never occurred: a mistyped one would silently match nothing.
async fn known_cause(app: &App, caller: &Caller, filter: &Filter) -> Result<(), Problem> {
    let Some(cause) = &filter.cause else { return Ok(()) };
    let only = Filter { cause: Some(cause.clone()), ..Filter::default() };
    let found = app.catalogue().causes(&only, 1).await?;
    match found.iter().any(|cause| caller.sees(&cause.queue)) {
        true => Ok(()),
        false => Err(CatalogueError::NoCause(cause.clone()).into()),
    }
}

/// Parses ids; an error says which one is invalid.
fn parsed(ids: &[String]) -> Result<Vec<DeadLetterId>, Problem> {
    let parse = |(place, text): (usize, &String)| {
        text.parse().map_err(|error| Problem::unknown(format!("ids[{place}]: {error}")))
    };
    ids.iter().enumerate().map(parse).collect()
}

/// Runs in a separate task, so that a client that disconnects does not leave a plan behind that never runs.
async fn begin(
    app: Arc<App>,
    caller: Caller,
    plan: OperationPlan,
    verb: Verb,
    reason: String,
    only_plan: bool,
) -> Result<Response, Problem> {
    let begun = tokio::spawn(async move {
        let (status, operation) = run(&app, &caller, &plan, verb, reason, only_plan).await?;
        Ok((status, Json(told(&app, &operation))).into_response())
    });
    let ended =
        || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ended", "the gateway is stopping");
    begun.await.unwrap_or_else(|_| Err(ended()))
}

async fn run(
    app: &App,
    caller: &Caller,
    plan: &OperationPlan,
    verb: Verb,
    reason: String,
    only_plan: bool,
) -> Result<(StatusCode, Operation), Problem> {
    let action = caller.action(verb, target(plan), reason.clone());
    let planned = app.catalogue().plan(plan, &action).await?;
    if only_plan || planned.total == 0 {
        return Ok((StatusCode::OK, planned));
    }
    let target = format!("operation {}, {} dead letters: run", planned.id, planned.total);
    let action = caller.action(verb, target, reason);
    let running = app.catalogue().command(planned.id, OperationCommand::Run, &action).await?;
    app.conductor.wake();
    Ok((StatusCode::ACCEPTED, running))
}

/// Describes the selection for the audit log.
fn target(plan: &OperationPlan) -> String {
    match &plan.selection {
        Selection::Ids(ids) => {
            let named: Vec<_> = ids.iter().take(NAMED).map(ToString::to_string).collect();
            let more = match ids.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("dead letters {}{more}", named.join(", "))
        }
        Selection::Matching(filter) => filter::words(filter),
    }
}

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

fn told(app: &App, operation: &Operation) -> api_types::Operation {
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
fn sees(caller: &Caller, operation: &Operation) -> bool {
    let queues = &operation.queues;
    queues.iter().all(|(queue, _)| caller.sees(queue))
        && (!queues.is_empty() || caller.needs_everywhere(Role::Viewer).is_ok())
}
