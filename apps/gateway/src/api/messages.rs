//! Accepts messages: a response of 202 means that they are synced to disk.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body as RequestBody,
    extract::State,
    response::{IntoResponse, Response},
};
use bezoar::{Body, Outgoing, QueueName};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::{sync::SemaphorePermit, time::timeout};

use super::{
    Problem,
    caller::Caller,
    envelope::{self, BatchItem},
    segment::Segment,
};
use crate::{app::App, config::Role};

/// How long a client may take to send the body.
const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// How long a request waits for a free slot before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of messages in a batch.
const BATCH_LIMIT: usize = 10_000;

pub(super) async fn accept(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, Problem> {
    let queue = admitted(&app, &caller, &queue)?;
    let _room = room(&app).await?;
    let body = read(body, app.max_body_bytes()).await?;
    let outgoing = envelope::from_request(&headers, Body::from(body), app.now())?;
    let id = outgoing.message.id.clone();
    let traced = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let mut results = app.store(&queue, vec![outgoing], traced).await;
    results.pop().unwrap_or(Ok(())).map_err(Problem::from)?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "id": id.as_str() }))).into_response())
}

pub(super) async fn accept_batch(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, Problem> {
    let queue = admitted(&app, &caller, &queue)?;
    let _room = room(&app).await?;
    let body = read(body, app.max_body_bytes()).await?;
    let items = items(&headers, &body)?;
    let now = app.now();
    let made: Vec<_> =
        items.into_iter().map(|item| item.and_then(|item| item.into_message(now))).collect();
    let traced = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let results = store_made(&app, &queue, made, traced).await;
    let accepted = results.iter().filter(|result| result.get("error").is_none()).count();
    let answer =
        json!({ "accepted": accepted, "refused": results.len() - accepted, "results": results });
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Stores the valid messages, and returns one result per item, in order.
async fn store_made(
    app: &App,
    queue: &QueueName,
    made: Vec<Result<Outgoing, Problem>>,
    traced: Option<&str>,
) -> Vec<Value> {
    let ids: Vec<_> =
        made.iter().map(|made| made.as_ref().ok().map(|it| it.message.id.clone())).collect();
    let (outgoing, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    let mut stored =
        app.store(queue, outgoing.into_iter().flatten().collect(), traced).await.into_iter();
    let mut refused = refused.into_iter().filter_map(Result::err);
    let result = |id: Option<bezoar::MessageId>| match id {
        Some(id) => match stored.next().unwrap_or(Ok(())) {
            Ok(()) => json!({ "id": id.as_str() }),
            Err(error) => failed(Some(id.as_str()), &Problem::from(error)),
        },
        None => refused.next().map_or(Value::Null, |problem| failed(None, &problem)),
    };
    ids.into_iter().map(result).collect()
}

fn failed(id: Option<&str>, problem: &Problem) -> Value {
    json!({ "id": id, "error": { "code": problem.code(), "detail": problem.detail() } })
}

fn admitted(app: &App, caller: &Caller, queue: &str) -> Result<QueueName, Problem> {
    let queue = QueueName::new(queue)?;
    caller.needs(Role::Operator, Some(&queue))?;
    app.known(&queue, |queue| caller.sees(queue))?;
    Ok(queue)
}

/// Takes a slot among the requests whose bodies are in memory; fails if none becomes free in time.
async fn room(app: &App) -> Result<SemaphorePermit<'_>, Problem> {
    match timeout(PATIENCE, app.room().acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => {
            let detail = "too many requests in progress";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
            Err(problem.retry_after(Duration::from_secs(1)))
        }
    }
}

async fn read(body: RequestBody, limit: usize) -> Result<Bytes, Problem> {
    let collected = timeout(BODY_DEADLINE, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let detail = format!("the body is larger than the limit of {limit} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
                .with("limit_bytes", limit))
        }
        Ok(Err(_)) => Err(Problem::bad_request("the request body is incomplete")),
        Err(_) => {
            let detail =
                format!("timed out: the body did not arrive within {} s", BODY_DEADLINE.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", detail))
        }
    }
}

/// Parses the items of a batch: NDJSON lines, or a JSON array.
fn items(headers: &HeaderMap, body: &Bytes) -> Result<Vec<Result<BatchItem, Problem>>, Problem> {
    let kind =
        headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let items: Vec<_> = if kind.contains("ndjson") || kind.contains("jsonl") {
        let text = std::str::from_utf8(body)
            .map_err(|_| Problem::bad_request("the batch is not UTF-8"))?;
        text.lines().filter(|line| !line.trim().is_empty()).map(item).collect()
    } else {
        let array: Vec<&serde_json::value::RawValue> =
            serde_json::from_slice(body).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                let help =
                    "send an array of messages, or NDJSON with content-type application/x-ndjson";
                Problem::bad_request(format!(
                    "the batch is not a JSON array (line {line}, column {column}); {help}"
                ))
            })?;
        array.into_iter().map(|raw| item(raw.get())).collect()
    };
    if items.len() > BATCH_LIMIT {
        let detail = format!("the batch has {} messages, the limit is {BATCH_LIMIT}", items.len());
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-many", detail));
    }
    Ok(items)
}

/// Parses an item. serde's message may quote a value, so only the position is reported.
fn item(text: &str) -> Result<BatchItem, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let known = "id, type, correlation_id, causation_id, content_type, delay, headers, body, body_base64";
        Problem::bad_request(format!("invalid message at column {}; known members: {known}", error.column()))
    })
}
