//! Rejected messages whose dead letters stay on their broker, with the reason and every attempt.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::{CorrelationId, MessageId, QueueName, catalogue::RejectionFilter};
use serde_json::{Value, json};

use super::{Problem, caller::Caller, filter, filter::QueryPairs, views};
use crate::{app::App, config::Role};

/// How many rows a reply has by default, and at most.
const ROWS: (u32, u32) = (100, 1_000);

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (mut wanted, mut queue, mut limit) = (RejectionFilter::default(), None, ROWS.0);
    for (name, value) in filter::pairs(query)? {
        match name.as_str() {
            "queue" => queue = Some(QueueName::new(value)?),
            "message_id" => wanted.message_id = Some(MessageId::new(value)?),
            "correlation_id" => wanted.correlation_id = Some(CorrelationId::new(value)?),
            "limit" => limit = filter::limit(&value, ROWS.1)?,
            _ => {
                let known = "unknown parameter; use queue, message_id, correlation_id or limit";
                return Err(Problem::bad_request(known));
            }
        }
    }
    wanted.queues = caller.limited(queue)?;
    let found = app.catalogue().rejections(&wanted, limit).await?;
    Ok(Json(json!({ "rejections": found.iter().map(views::rejection).collect::<Vec<_>>() })))
}
