//! Accepts messages: a response of 202 means that they are synced to disk.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body as RequestBody,
    extract::State,
    response::{IntoResponse, Response},
};
use bezoar::{Acceptance, Body, Outgoing, QueueName};
use http::{HeaderMap, StatusCode};
use tokio::{sync::SemaphorePermit, time::timeout};

use super::{
    Problem, batch,
    body::busy,
    caller::Caller,
    envelope,
    parameters::{MessageHeaders, QueuePath},
    segment::Segment,
};
use crate::{
    api_types::{self, AcceptedMessage, BatchAnswer, BatchItem, BatchResult, ItemProblem},
    app::App,
    config::Role,
};

/// How long a request waits for a free slot before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);
/// Codes of problems that pass.
const TRANSIENT: [&str; 5] =
    ["throttled", "outcome-unknown", "store-unavailable", "broker-unavailable", "store-full"];

/// Accepts a message.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/messages", operation_id = "send_message", tag = "messages",
    params(QueuePath, MessageHeaders),
    request_body(content = Vec<u8>, description = "The body of the message.", content_type = "application/octet-stream"),
    responses((status = 202, description = "The message is synced to disk.", body = AcceptedMessage))
)]
pub(super) async fn accept(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, Problem> {
    let queue = admitted(&app, &caller, &queue)?;
    let body = app.body_memory.read(body, app.max_body_bytes()).await?;
    let outgoing = envelope::from_request(&headers, Body::from(body.bytes.clone()), app.now())?;
    let id = outgoing.message.id.clone();
    let traced = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let _room = room(&app).await?;
    let mut results = app.store(&queue, vec![outgoing], traced).await;
    let acceptance = results.pop().unwrap_or(Ok(Acceptance::New)).map_err(Problem::from)?;
    let accepted =
        AcceptedMessage { id: id.to_string(), repeated: acceptance == Acceptance::Repeated };
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

/// Accepts up to 10,000 messages; returns one result per message, in order.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/batches", operation_id = "send_batch", tag = "messages",
    params(QueuePath),
    request_body(content = Vec<BatchItem>, description = "An array of messages; or one per line, as application/x-ndjson."),
    responses(
        (status = 202, description = "At least one message was accepted, and is synced to disk.", body = BatchAnswer),
        (status = 422, description = "All messages were refused.", body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn accept_batch(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, Problem> {
    let queue = admitted(&app, &caller, &queue)?;
    let mut body = app.body_memory.read(body, app.max_body_bytes()).await?;
    let bytes = body.bytes.clone();
    let made = batch::messages(&headers, &bytes, app.now(), &mut |more| body.hold(more))?;
    let traced = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let _room = room(&app).await?;
    let results = store_made(&app, &queue, made, traced).await;
    let count =
        |fits: fn(&BatchResult) -> bool| results.iter().filter(|it| fits(it)).count() as u64;
    let (refused, repeated) = (count(|it| it.error.is_some()), count(|it| it.repeated));
    let accepted = results.len() as u64 - refused;
    if accepted == 0 && refused > 0 {
        return Err(all_refused(results));
    }
    let answer = BatchAnswer { accepted, repeated, refused, results };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Nothing was accepted: not a success, and worth a retry only if every message is.
fn all_refused(results: Vec<BatchResult>) -> Problem {
    let codes = results.iter().filter_map(|result| result.error.as_ref());
    let is_transient = codes.clone().all(|error| TRANSIENT.contains(&error.code.as_str()));
    let (status, code) = match is_transient {
        true => (StatusCode::SERVICE_UNAVAILABLE, "all-unavailable"),
        false => (StatusCode::UNPROCESSABLE_ENTITY, "all-refused"),
    };
    let first = codes.map(|error| error.detail.as_str()).next().unwrap_or_default();
    let detail = format!("all {} messages were refused; the first one: {first}", results.len());
    let problem = Problem::new(status, code, detail).with(|it| it.results = Some(results));
    if is_transient { problem.retry_after(Duration::from_secs(1)) } else { problem }
}

/// Stores the valid messages, and returns one result per item, in order.
async fn store_made(
    app: &App,
    queue: &QueueName,
    made: Vec<Result<Outgoing, Problem>>,
    traced: Option<&str>,
) -> Vec<BatchResult> {
    let ids: Vec<_> =
        made.iter().map(|made| made.as_ref().ok().map(|it| it.message.id.clone())).collect();
    let (outgoing, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    let mut stored =
        app.store(queue, outgoing.into_iter().flatten().collect(), traced).await.into_iter();
    let mut refused = refused.into_iter().filter_map(Result::err);
    let result = |id: Option<bezoar::MessageId>| {
        let result = match &id {
            Some(_) => stored.next().unwrap_or(Ok(Acceptance::New)).map_err(Problem::from),
            None => refused.next().map_or(Ok(Acceptance::New), Err),
        };
        BatchResult {
            id: id.map(|id| id.to_string()),
            repeated: matches!(result, Ok(Acceptance::Repeated)),
            error: result.as_ref().err().map(item_problem),
        }
    };
    ids.into_iter().map(result).collect()
}

fn item_problem(problem: &Problem) -> ItemProblem {
    ItemProblem { code: problem.code().to_owned(), detail: problem.detail().to_owned() }
}

fn admitted(app: &App, caller: &Caller, queue: &str) -> Result<QueueName, Problem> {
    let queue = QueueName::new(queue).map_err(Problem::unknown)?;
    caller.needs(Role::Sender, Some(&queue))?;
    app.known(&queue, |queue| caller.sends_to(queue))?;
    Ok(queue)
}

/// Takes a slot among the requests whose messages are being stored; fails if none becomes free in time. It is taken
/// only after the body has arrived: a slow sender keeps nobody waiting.
async fn room(app: &App) -> Result<SemaphorePermit<'_>, Problem> {
    match timeout(PATIENCE, app.room().acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(busy()),
    }
}
