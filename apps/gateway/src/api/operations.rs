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
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Problem, caller::Caller, filter, filter::QueryPairs, input, input::Input, segment::Segment,
    views,
};
use crate::{app::App, config::Role};

/// The maximum number of ids in a request.
const IDS_LIMIT: usize = 10_000;
/// The maximum number of ids in an entry of the audit log.
const NAMED: usize = 100;
/// The number of rows in a list of operations, and of messages.
const OPERATIONS: u32 = 100;
const ITEMS: u32 = 1_000;
/// The maximum rate.
const RATE_LIMIT: f64 = 1_000_000.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayInput {
    reason: String,
    ids: Option<Vec<String>>,
    filter: Option<Map<String, Value>>,
    expect: Option<u64>,
    #[serde(default)]
    canary: u32,
    rate: Option<f64>,
    stop_after: Option<u32>,
    #[serde(default)]
    new_ids: bool,
    /// Leaves out what other operations hold; without it, nothing is planned then.
    #[serde(default)]
    skip_held: bool,
    /// Only plans; a command starts it later.
    #[serde(default)]
    plan: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiscardInput {
    reason: String,
    ids: Option<Vec<String>>,
    filter: Option<Map<String, Value>>,
    /// The expected number, required to protect against mistakes.
    expect: u64,
    /// Leaves out what other operations hold; without it, nothing is planned then.
    #[serde(default)]
    skip_held: bool,
}

pub(super) async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    Input(wanted): Input<ReplayInput>,
) -> Result<Response, Problem> {
    caller.needs(Role::Operator, None)?;
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

pub(super) async fn discard(
    State(app): State<Arc<App>>,
    caller: Caller,
    Input(wanted): Input<DiscardInput>,
) -> Result<Response, Problem> {
    caller.needs(Role::Admin, None)?;
    let reason = input::reason(&wanted.reason)?;
    let selection = selection(&app, &caller, wanted.ids, wanted.filter).await?;
    let plan = OperationPlan {
        kind: OperationKind::Discard,
        selection,
        expect: Some(wanted.expect),
        held: held(wanted.skip_held),
    };
    begin(app, caller, plan, Verb::Discard, reason, false).await
}

fn held(skip: bool) -> HeldLetters {
    if skip { HeldLetters::Skip } else { HeldLetters::Refuse }
}

/// The selection; the caller must be allowed to see every dead letter that is given by id.
async fn selection(
    app: &App,
    caller: &Caller,
    ids: Option<Vec<String>>,
    filter: Option<Map<String, Value>>,
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
                    let queue = app.catalogue().record(*id).await?.entry.queue;
                    if !queues.contains(&queue) {
                        return Err(CatalogueError::NoDeadLetter(*id).into());
                    }
                }
            }
            Ok(Selection::Ids(ids))
        }
        (None, Some(object)) => {
            let filter = filter::from_object(&object, caller, app)?;
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
        text.parse().map_err(|error| Problem::bad_request(format!("ids[{place}]: {error}")))
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

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let all = app.catalogue().operations(OPERATIONS).await?;
    let seen = all.iter().filter(|operation| sees(&caller, operation));
    Ok(Json(
        json!({ "operations": seen.map(|operation| told(&app, operation)).collect::<Vec<_>>() }),
    ))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<Value>, Problem> {
    Ok(Json(told(&app, &seen(&app, &caller, &id, Role::Viewer).await?)))
}

pub(super) async fn messages(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    query: QueryPairs,
) -> Result<Json<Value>, Problem> {
    let operation = seen(&app, &caller, &id, Role::Viewer).await?;
    let after = match filter::pairs(query)?.as_slice() {
        [] => 0,
        [(name, value)] if name == "after" => value
            .parse()
            .map_err(|_| Problem::bad_request("after must be a position, a whole number"))?,
        _ => return Err(Problem::bad_request("the only parameter is after, a position")),
    };
    let items = app.catalogue().items(operation.id, after, ITEMS).await?;
    let next = (items.len() == ITEMS as usize).then(|| items.last().map(|item| item.place));
    let items: Vec<_> = items.iter().map(views::item).collect();
    Ok(Json(json!({ "messages": items, "next": next.flatten() })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OrderInput {
    order: Wanted,
    reason: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Run,
    Pause,
    Cancel,
}

/// Starts, pauses, resumes or cancels an operation.
pub(super) async fn command(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    Input(wanted): Input<OrderInput>,
) -> Result<Json<Value>, Problem> {
    let operation = seen(&app, &caller, &id, Role::Operator).await?;
    let (verb, role) = match operation.kind {
        OperationKind::Replay { .. } => (Verb::Replay, Role::Operator),
        OperationKind::Discard => (Verb::Discard, Role::Admin),
    };
    caller.needs(role, None)?;
    let reason = input::reason(&wanted.reason)?;
    let (command, word) = match wanted.order {
        Wanted::Run => (OperationCommand::Run, "run"),
        Wanted::Pause => (OperationCommand::Pause, "pause"),
        Wanted::Cancel => (OperationCommand::Cancel, "cancel"),
    };
    let action = caller.action(verb, format!("operation {}: {word}", operation.id), reason);
    let operation = app.catalogue().command(operation.id, command, &action).await?;
    app.conductor.wake();
    Ok(Json(told(&app, &operation)))
}

fn told(app: &App, operation: &Operation) -> Value {
    let runs = operation.state == OperationState::Running;
    let waiting = app.conductor.waiting_for_canary(operation.id).filter(|_| runs);
    views::operation(operation, waiting)
}

/// An operation whose queues the caller may all see; others are reported as not found.
async fn seen(app: &App, caller: &Caller, id: &str, role: Role) -> Result<Operation, Problem> {
    caller.needs(role, None)?;
    let id: OperationId = id.parse()?;
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
