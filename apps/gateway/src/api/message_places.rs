//! `/v1/messages/{id}`: where a message is, as far as the store knows.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::{
    MessageId,
    catalogue::{Filter, ListRequest, RejectionFilter},
};

use super::{Problem, caller::Caller, parameters::IdPath, segment::Segment};
use crate::{
    api_types::{MessagePlaces, MessageState},
    app::App,
    config::Role,
};

/// How many dead letters and rejections are shown.
const SHOWN: u32 = 100;

/// Returns what is known of a message: its dead letters, and its rejections by brokers.
#[utoipa::path(
    get, path = "/v1/messages/{id}", operation_id = "get_message", tag = "messages", params(IdPath),
    responses((status = 200, description = "Success.", body = MessagePlaces))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<MessagePlaces>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let id = MessageId::new(id).map_err(Problem::unknown)?;
    let queues = caller.limited(None)?;
    let filter =
        Filter { queues: queues.clone(), message_id: Some(id.clone()), ..Filter::default() };
    let dead = app.catalogue().list(&filter, &ListRequest { after: None, limit: SHOWN }).await?;
    let filter = RejectionFilter { queues, message_id: Some(id.clone()), correlation_id: None };
    let rejected = app.catalogue().rejections(&filter, SHOWN).await?;
    let state = match (dead.is_empty(), rejected.is_empty()) {
        (false, _) => MessageState::Dead,
        (true, false) => MessageState::DeadOnBroker,
        (true, true) => MessageState::NotDead,
    };
    Ok(Json(MessagePlaces {
        message_id: id.to_string(),
        state,
        dead_letters: dead.iter().map(Into::into).collect(),
        rejections: rejected.iter().map(Into::into).collect(),
    }))
}
