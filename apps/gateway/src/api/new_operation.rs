//! New replays and discards: they are selected, planned and started, each at most once per request.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use bezoar::{
    DeadLetterId,
    catalogue::{
        AuditedAction, CatalogueError, Filter, HeldLetters, Operation, OperationCommand,
        OperationKind, OperationPlan, OperationRequest, OperationState, ReplayIds, Selection, Verb,
    },
};
use http::{HeaderMap, StatusCode};

use super::{
    Problem,
    caller::Caller,
    filter, idempotency, input,
    input::Input,
    operations::{sees, told},
    parameters::IdempotencyHeader,
};
use crate::{
    api_types::{self, DeadLetterFilter, DiscardRequest, ReplayRequest},
    app::App,
    config::Role,
};

/// The maximum number of ids in a request.
const IDS_LIMIT: usize = 10_000;
/// The maximum number of ids in an entry of the audit log.
const NAMED: usize = 100;
/// The maximum rate.
const RATE_LIMIT: f64 = 1_000_000.0;

/// What a request asks for.
struct NewOperation {
    kind: OperationKind,
    ids: Option<Vec<String>>,
    filter: Option<DeadLetterFilter>,
    expect: Option<u64>,
    held: HeldLetters,
    reason: String,
    start: Start,
    /// The key of the request, if it has one.
    request: Option<OperationRequest>,
}

/// Whether an operation starts once it is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    AtOnce,
    ByCommand,
}

/// Replays dead letters.
#[utoipa::path(
    post, path = "/v1/replays", operation_id = "replay_dead_letters", tag = "operations",
    params(IdempotencyHeader), request_body = ReplayRequest,
    responses(
        (status = 200, description = "Planned, or nothing to do.", body = api_types::Operation,
            headers(("Idempotency-Replayed" = String, description = "true if an earlier request with this key planned it."))),
        (status = 202, description = "Started.", body = api_types::Operation,
            headers(("Idempotency-Replayed" = String, description = "true if an earlier request with this key planned it."))),
        (status = 422, description = "The Idempotency-Key belongs to a different request.",
            body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
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
    let request = idempotency::request(&headers, &kind, &wanted)?;
    let ReplayRequest { ids, filter, expect, .. } = wanted;
    let (held, start) = (held(wanted.skip_held), start(wanted.plan));
    begin(app, caller, NewOperation { kind, ids, filter, expect, held, reason, start, request })
        .await
}

/// Discards dead letters for good.
#[utoipa::path(
    post, path = "/v1/discards", operation_id = "discard_dead_letters", tag = "operations",
    params(IdempotencyHeader), request_body = DiscardRequest,
    responses(
        (status = 200, description = "Planned, or nothing to do.", body = api_types::Operation,
            headers(("Idempotency-Replayed" = String, description = "true if an earlier request with this key planned it."))),
        (status = 202, description = "Started.", body = api_types::Operation,
            headers(("Idempotency-Replayed" = String, description = "true if an earlier request with this key planned it."))),
        (status = 422, description = "The Idempotency-Key belongs to a different request.",
            body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    wanted: Input<DiscardRequest>,
) -> Result<Response, Problem> {
    let wanted = wanted.read(&app, &caller, Role::Admin).await?;
    let reason = input::reason(&wanted.reason)?;
    if wanted.expect.is_none() && !wanted.plan {
        return Err(Problem::bad_request(
            "expect is required: the number of dead letters to discard; or plan it first",
        ));
    }
    let kind = OperationKind::Discard;
    let request = idempotency::request(&headers, &kind, &wanted)?;
    let DiscardRequest { ids, filter, expect, .. } = wanted;
    let (held, start) = (held(wanted.skip_held), start(wanted.plan));
    begin(app, caller, NewOperation { kind, ids, filter, expect, held, reason, start, request })
        .await
}

fn held(skip: bool) -> HeldLetters {
    if skip { HeldLetters::Skip } else { HeldLetters::Refuse }
}

fn start(only_plan: bool) -> Start {
    if only_plan { Start::ByCommand } else { Start::AtOnce }
}

/// The selection; the caller must be allowed to see every dead letter that is given by id.
async fn selection(
    app: &App,
    caller: &Caller,
    ids: Option<&[String]>,
    filter: Option<&DeadLetterFilter>,
) -> Result<Selection, Problem> {
    match (ids, filter) {
        (Some(ids), None) if ids.len() > IDS_LIMIT => Err(Problem::bad_request(format!(
            "the request has {} ids, the limit is {IDS_LIMIT}; use a filter",
            ids.len()
        ))),
        (Some(ids), None) if !ids.is_empty() => {
            let ids = parsed(ids)?;
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
            let filter = filter::from_request(filter, caller, app)?;
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
async fn begin(app: Arc<App>, caller: Caller, new: NewOperation) -> Result<Response, Problem> {
    let begun = tokio::spawn(async move {
        let begun = begin_once(&app, &caller, &new).await?;
        let answer = (begun.status(new.start), Json(told(&app, &begun.operation)));
        Ok(match begun.is_repetition {
            true => ([(idempotency::REPLAYED, "true")], answer).into_response(),
            false => answer.into_response(),
        })
    });
    let ended =
        || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ended", "the gateway is stopping");
    begun.await.unwrap_or_else(|_| Err(ended()))
}

/// An operation, and whether an earlier request planned it.
struct Begun {
    operation: Operation,
    is_repetition: bool,
}

impl Begun {
    fn status(&self, start: Start) -> StatusCode {
        let is_empty = self.operation.total == 0;
        if start == Start::ByCommand || is_empty { StatusCode::OK } else { StatusCode::ACCEPTED }
    }
}

/// Plans and starts an operation, unless an equal request did.
async fn begin_once(app: &App, caller: &Caller, new: &NewOperation) -> Result<Begun, Problem> {
    if let Some(known) = begun_before(app, caller, new).await? {
        return Ok(known);
    }
    match begin_first(app, caller, new).await {
        Ok(operation) => Ok(Begun { operation, is_repetition: false }),
        // An equal request may have been faster, and has the dead letters.
        Err(problem) => begun_before(app, caller, new).await?.ok_or(problem),
    }
}

/// The operation that an equal request planned. That request may have ended before it started the operation: the
/// repetition does so.
async fn begun_before(
    app: &App,
    caller: &Caller,
    new: &NewOperation,
) -> Result<Option<Begun>, Problem> {
    let Some(request) = &new.request else { return Ok(None) };
    let actor = new.action(caller, String::new()).actor;
    let Some(mut operation) = app.catalogue().requested(&actor, request).await? else {
        return Ok(None);
    };
    if !sees(caller, &operation) {
        return Err(CatalogueError::NoOperation(operation.id).into());
    }
    if new.start == Start::AtOnce && operation.state == OperationState::Planned {
        operation = run(app, caller, new, &operation).await?;
    }
    Ok(Some(Begun { operation, is_repetition: true }))
}

async fn begin_first(app: &App, caller: &Caller, new: &NewOperation) -> Result<Operation, Problem> {
    let plan = OperationPlan {
        kind: new.kind,
        selection: selection(app, caller, new.ids.as_deref(), new.filter.as_ref()).await?,
        expect: new.expect,
        held: new.held,
        request: new.request.clone(),
    };
    let planned = app.catalogue().plan(&plan, &new.action(caller, target(&plan))).await?;
    match new.start {
        Start::AtOnce if planned.total > 0 => run(app, caller, new, &planned).await,
        _ => Ok(planned),
    }
}

async fn run(
    app: &App,
    caller: &Caller,
    new: &NewOperation,
    planned: &Operation,
) -> Result<Operation, Problem> {
    let target = format!("operation {}, {} dead letters: run", planned.id, planned.total);
    let action = new.action(caller, target);
    let running = app.catalogue().command(planned.id, OperationCommand::Run, &action).await?;
    app.conductor.wake();
    Ok(running)
}

impl NewOperation {
    fn action(&self, caller: &Caller, target: String) -> AuditedAction {
        let verb = match self.kind {
            OperationKind::Replay { .. } => Verb::Replay,
            OperationKind::Discard => Verb::Discard,
        };
        caller.action(verb, target, self.reason.clone())
    }
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
