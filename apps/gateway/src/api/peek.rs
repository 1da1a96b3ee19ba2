//! `GET /v1/queues/{queue}/messages`: messages in a queue, without taking them.

use std::{num::NonZeroU32, sync::Arc};

use axum::{Json, extract::State};
use bezoar::{PeekPage, PeekPosition, QueueName, QueueState, Transport};
use http::StatusCode;
use utoipa::{IntoParams, ToSchema};

use super::{
    Problem, caller::Caller, filter, filter::QueryPairs, parameters::QueuePath, segment::Segment,
};
use crate::{
    api_types::{self, Page, QueuedMessage},
    app::App,
    config::Role,
};

/// The default and the maximum page size.
const PAGE: (u32, u32) = (100, 1_000);

/// Which messages to list.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes; the handler reads parameters one by one")]
pub(super) struct PeekQuery {
    /// Their state; those that wait unless given.
    #[param(inline)]
    state: Option<PeekState>,
    /// The maximum number of rows.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// The state of listed messages.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it only describes")]
enum PeekState {
    Waiting,
    Delayed,
    Leased,
}

/// Lists messages in a queue without taking them, those that are due first first.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/messages", operation_id = "peek_messages", tag = "messages",
    params(QueuePath, PeekQuery),
    responses(
        (status = 200, description = "Success.", body = Page<QueuedMessage>),
        (status = 409, description = "The queue's broker hands messages only to consumers.",
            body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
    query: QueryPairs,
) -> Result<Json<Page<QueuedMessage>>, Problem> {
    let queue = QueueName::new(queue).map_err(Problem::unknown)?;
    caller.needs(Role::Viewer, Some(&queue))?;
    app.known(&queue, |queue| caller.sees(queue))?;
    let page = page(query)?;
    let access = match app.broker(&queue) {
        Some(broker) => return Err(unsupported(&queue, broker.capabilities().transport)),
        None => app.bezoar.admin().message_access().ok_or_else(|| unsupported(&queue, "store"))?,
    };
    let found = access.peek(&queue, page).await?;
    let next = found.last().map(|message| message.position.to_string());
    let items = found.iter().map(|it| QueuedMessage::new(&queue, page.state, it)).collect();
    Ok(Json(Page::new(items, page.limit.get(), next)))
}

fn page(query: QueryPairs) -> Result<PeekPage, Problem> {
    let (mut state, mut limit, mut after) = (QueueState::Ready, PAGE.0, None);
    for (name, value) in filter::pairs(query)? {
        match name.as_str() {
            "state" => state = read_state(&value)?,
            "limit" => limit = filter::limit(&value, PAGE.1)?,
            "after" => after = Some(value.parse::<PeekPosition>().map_err(Problem::unknown)?),
            _ => return Err(Problem::bad_request("unknown parameter; use state, limit or after")),
        }
    }
    Ok(PeekPage { state, after, limit: NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN) })
}

fn read_state(text: &str) -> Result<QueueState, Problem> {
    match text {
        "waiting" => Ok(QueueState::Ready),
        "delayed" => Ok(QueueState::Delayed),
        "leased" => Ok(QueueState::Leased),
        _ => Err(Problem::bad_request("state must be waiting, delayed or leased")),
    }
}

fn unsupported(queue: &QueueName, transport: &str) -> Problem {
    let detail = format!(
        "messages of {queue:?} cannot be listed: {transport} shows them only to the consumers that take them"
    );
    Problem::new(StatusCode::CONFLICT, "not-supported", detail)
}
