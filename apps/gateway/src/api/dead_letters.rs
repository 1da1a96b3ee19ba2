//! Dead letters, without bodies, header values or error texts.

use std::{num::NonZeroU32, sync::Arc};

use axum::{
    Json,
    extract::{Query, State},
};
use bezoar::{DeadLetter, DeadLetterId, Page, QueueName};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Problem, caller::Caller, segment::Segment};
use crate::{app::App, config::Role};

/// The most rows of one page.
const PAGE_LIMIT: u32 = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    queue: Option<String>,
    limit: Option<NonZeroU32>,
    after: Option<i64>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    filter: Result<Query<Filter>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let known = "queue, limit (from 1), after (an id)";
    let Query(filter) =
        filter.map_err(|_| Problem::bad_request(format!("the parameters are {known}")))?;
    let queues = match &filter.queue {
        Some(queue) => vec![QueueName::new(queue)?],
        None => app.queues().into_iter().filter(|queue| caller.sees(queue)).collect(),
    };
    let limit = filter.limit.map_or(100, NonZeroU32::get).min(PAGE_LIMIT);
    let mut rows: Vec<DeadLetter> = Vec::new();
    for queue in queues {
        caller.needs(Role::Viewer, Some(&queue))?;
        app.known(&queue, |queue| caller.sees(queue))?;
        let after = filter.after.map(DeadLetterId);
        let page = Page { after, limit: NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN) };
        rows.extend(app.bezoar().admin().dead_letters(&queue, page).await?);
    }
    rows.sort_by_key(|dead| dead.id);
    rows.truncate(limit as usize);
    let next = (rows.len() == limit as usize).then(|| rows.last().map(|dead| dead.id.0)).flatten();
    let rows: Vec<_> = rows.iter().map(summary).collect();
    Ok(Json(json!({ "dead_letters": rows, "next": next })))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<Value>, Problem> {
    let number: i64 =
        id.parse().map_err(|_| Problem::bad_request("the id of a dead letter is a number"))?;
    for queue in app.queues().into_iter().filter(|queue| caller.sees(queue)) {
        let page =
            Page { after: Some(DeadLetterId(number.saturating_sub(1))), limit: NonZeroU32::MIN };
        let found = app.bezoar().admin().dead_letters(&queue, page).await?;
        if let Some(dead) = found.first().filter(|dead| dead.id.0 == number) {
            return Ok(Json(whole(dead)));
        }
    }
    Err(Problem::not_found(format!("there is no dead letter {number}")))
}

fn summary(dead: &DeadLetter) -> Value {
    let (message, last) = (&dead.message, dead.message.ledger.last());
    json!({
        "id": dead.id.0,
        "queue": dead.queue.as_str(),
        "message_id": message.id.as_str(),
        "type": message.message_type.as_str(),
        "correlation_id": message.correlation_id.as_ref().map(|id| id.as_str()),
        "reason": { "code": dead.reason.code().as_str(), "text": dead.reason.to_string() },
        "error": last.map(|last| json!({ "kind": last.kind.as_str(), "code": last.code.as_str() })),
        "attempts": message.ledger.failed,
        "replayed": message.ledger.replayed,
        "body_bytes": message.body.len(),
        "at": dead.at.to_string(),
    })
}

fn whole(dead: &DeadLetter) -> Value {
    let message = &dead.message;
    let attempts: Vec<_> = message
        .ledger
        .history()
        .iter()
        .map(|attempt| {
            json!({
                "generation": attempt.generation,
                "number": attempt.number,
                "try": attempt.tried,
                "at": attempt.at.to_string(),
                "duration_ms": attempt.duration.as_millis() as u64,
                "kind": attempt.kind.as_str(),
                "code": attempt.code.as_str(),
                "detail_bytes": attempt.detail.len(),
            })
        })
        .collect();
    let headers: Vec<_> = message
        .headers
        .iter()
        .map(|(name, value)| json!({ "name": name, "bytes": value.len() }))
        .collect();
    let mut all = summary(dead);
    all["time"] = message.time.to_string().into();
    all["content_type"] = message.content_type.as_ref().map(|it| it.as_str()).into();
    all["causation_id"] = message.causation_id.as_ref().map(|id| id.as_str()).into();
    all["acquired"] = message.ledger.acquired.into();
    all["released"] = message.ledger.released.into();
    all["history"] = attempts.into();
    all["headers"] = headers.into();
    all
}
