//! Replays or discards all dead letters of a queue that stay on its broker.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use bezoar::{
    DeadLetterFeed, ErrorKind, QueueAdmin, QueueName, Transport, TransportError, catalogue::Verb,
};
use http::StatusCode;

use super::{
    Problem, caller::Caller, input, input::Input, parameters::QueuePath, segment::Segment,
};
use crate::{
    api_types::{BrokerDiscardRequest, BrokerDiscarded, BrokerReplayed, ReasonRequest},
    app::App,
    broker::Broker,
    config::Role,
};

/// How long to wait for the next dead letter before believing that it was the last.
const LAST_LETTER: Duration = Duration::from_secs(2);

/// Replays all dead letters that are on the queue's broker.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/replay", operation_id = "replay_on_broker", tag = "queues",
    params(QueuePath), request_body = ReasonRequest,
    responses((status = 200, description = "Success.", body = BrokerReplayed))
)]
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    wanted: Input<ReasonRequest>,
) -> Result<Json<BrokerReplayed>, Problem> {
    let (queue, broker) = find(&app, &caller, &queue, Role::Operator)?;
    let wanted = wanted.read(&app, &caller, Role::Operator).await?;
    let reason = input::reason(&wanted.reason)?;
    log(&app, &caller, Verb::Replay, &queue, reason).await?;
    let replayed = finish(async move {
        let most = broker.depth(&queue).await?.dead.unwrap_or(u64::MAX);
        open(&broker, &queue).await?.replay_all(most, LAST_LETTER).await
    });
    Ok(Json(BrokerReplayed { replayed: replayed.await? }))
}

/// Discards all dead letters that are on the queue's broker for good.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/discard", operation_id = "discard_on_broker", tag = "queues",
    params(QueuePath), request_body = BrokerDiscardRequest,
    responses((status = 200, description = "Success.", body = BrokerDiscarded))
)]
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    wanted: Input<BrokerDiscardRequest>,
) -> Result<Json<BrokerDiscarded>, Problem> {
    let (queue, broker) = find(&app, &caller, &queue, Role::Admin)?;
    let wanted = wanted.read(&app, &caller, Role::Admin).await?;
    let reason = input::reason(&wanted.reason)?;
    let found = broker.depth(&queue).await?.dead.unwrap_or_default();
    if found != wanted.expect {
        let detail = format!(
            "found {found} dead letters on the broker, expected {}; check again",
            wanted.expect
        );
        return Err(Problem::unexpected(detail, wanted.expect, found));
    }
    log(&app, &caller, Verb::Discard, &queue, reason).await?;
    let discarded =
        finish(async move { open(&broker, &queue).await?.discard_all(found, LAST_LETTER).await });
    Ok(Json(BrokerDiscarded { discarded: discarded.await? }))
}

fn find(
    app: &App,
    caller: &Caller,
    queue: &str,
    role: Role,
) -> Result<(QueueName, Broker), Problem> {
    let queue = QueueName::new(queue).map_err(Problem::unknown)?;
    caller.needs(role, Some(&queue))?;
    app.known(&queue, |queue| caller.sees(queue))?;
    let elsewhere = match app.broker(&queue) {
        Some(_) if app.intakes.takes(&queue) => {
            "dead letters of this queue are moved into the gateway's catalogue as they arrive"
        }
        Some(broker) => return Ok((queue, broker.clone())),
        None => "this queue is not on a broker",
    };
    let detail =
        format!("{elsewhere}; use /v1/replays or /v1/discards, `bezoar dead` without --on-broker");
    Err(Problem::new(StatusCode::CONFLICT, "conflict", detail))
}

async fn open(
    broker: &Broker,
    queue: &QueueName,
) -> Result<Box<dyn DeadLetterFeed>, TransportError> {
    let feed = broker.dead_letter_feed(queue).await?;
    feed.ok_or_else(|| {
        let kind = ErrorKind::Unsupported("dead letters that stay on the broker");
        TransportError::new(kind, broker.capabilities().transport, "dead_letter_feed")
    })
}

/// Records the action before it happens.
async fn log(
    app: &App,
    caller: &Caller,
    verb: Verb,
    queue: &QueueName,
    reason: String,
) -> Result<(), Problem> {
    let target = format!("all dead letters of {queue} on its broker");
    Ok(app.catalogue().log(&caller.action(verb, target, reason)).await?)
}

/// Runs in a separate task, so that a client that disconnects does not abort it.
async fn finish(
    work: impl Future<Output = Result<u64, TransportError>> + Send + 'static,
) -> Result<u64, Problem> {
    match tokio::spawn(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "defect",
            "the operation was aborted by a bug",
        )),
    }
}
