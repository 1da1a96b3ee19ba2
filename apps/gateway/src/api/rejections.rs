//! Rejected messages whose dead letters stay on their broker, with the reason and every attempt.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::{CorrelationId, Invalid, MessageId, QueueName, catalogue::RejectionFilter};

use super::{
    Problem,
    caller::Caller,
    filter,
    filter::QueryPairs,
    parameters::{Paging, RejectionQuery},
};
use crate::{
    api_types::{Page, Rejection},
    app::App,
    config::Role,
};

/// How many rows a reply has by default, and at most.
const ROWS: (u32, u32) = (100, 1_000);

/// Lists why messages were rejected whose dead letters stay on their broker, for 30 days, newest first.
#[utoipa::path(
    get, path = "/v1/rejections", operation_id = "list_rejections", tag = "dead letters",
    params(RejectionQuery, Paging),
    responses((status = 200, description = "Success.", body = Page<Rejection>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Page<Rejection>>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (mut wanted, mut queue, mut limit) = (RejectionFilter::default(), None, ROWS.0);
    for (name, value) in filter::pairs(query)? {
        match name.as_str() {
            "queue" => queue = Some(QueueName::new(value).map_err(Problem::unknown)?),
            "message_id" => {
                wanted.message_id = Some(MessageId::new(value).map_err(Problem::unknown)?)
            }
            "correlation_id" => {
                wanted.correlation_id = Some(CorrelationId::new(value).map_err(Problem::unknown)?)
            }
            "limit" => limit = filter::limit(&value, ROWS.1)?,
            "after" => {
                wanted.after =
                    Some(value.parse().map_err(|invalid: Invalid| Problem::unknown(invalid))?)
            }
            _ => {
                let known =
                    "unknown parameter; use queue, message_id, correlation_id, limit or after";
                return Err(Problem::bad_request(known));
            }
        }
    }
    wanted.queues = caller.limited(queue)?;
    let found = app.catalogue().rejections(&wanted, limit).await?;
    let next = found.last().map(|rejection| rejection.position().to_string());
    Ok(Json(Page::new(found.iter().map(Into::into).collect(), limit, next)))
}
