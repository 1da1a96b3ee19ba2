//! `/v1/messages/{id}`: where a message is, as far as the store knows.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::{
    ErrorKind, MessageId, MessageLocation, QueueName,
    catalogue::{Filter, ListRequest, RejectionFilter},
};

use super::{Problem, caller::Caller, parameters::IdPath, segment::Segment};
use crate::{
    api_types::{MessagePlaces, MessageQueue, MessageState, QueuedMessage},
    app::App,
    config::Role,
};

/// How many dead letters and rejections are shown.
const SHOWN: u32 = 100;

/// Returns where a message is: in a queue of the store, dead, dead on its broker, or recently completed.
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
    let filter =
        RejectionFilter { queues, message_id: Some(id.clone()), ..RejectionFilter::default() };
    let rejected = app.catalogue().rejections(&filter, SHOWN).await?;
    let queues = located(&app, &caller, &id).await?;
    let state = match (dead.is_empty(), rejected.is_empty()) {
        (false, _) => MessageState::Dead,
        (true, false) => MessageState::DeadOnBroker,
        (true, true) => overall(&queues),
    };
    Ok(Json(MessagePlaces {
        message_id: id.to_string(),
        state,
        queues,
        dead_letters: dead.iter().map(Into::into).collect(),
        rejections: rejected.iter().map(Into::into).collect(),
    }))
}

/// The queues of the store that know the message, among those that the caller may see.
async fn located(app: &App, caller: &Caller, id: &MessageId) -> Result<Vec<MessageQueue>, Problem> {
    let Some(access) = app.bezoar.admin().message_access() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for queue in app.queues().into_iter().filter(|queue| caller.sees(queue)) {
        match access.locate(&queue, id).await {
            Ok(location) => found.extend(place(&queue, location)),
            Err(error) if matches!(error.kind, ErrorKind::QueueNotFound(_)) => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn place(queue: &QueueName, location: MessageLocation) -> Option<MessageQueue> {
    let (state, message) = match location {
        MessageLocation::Found(state, message) => {
            (state.into(), Some(QueuedMessage::new(queue, state, &message)))
        }
        MessageLocation::Queued => (MessageState::Queued, None),
        MessageLocation::Blocked => (MessageState::Blocked, None),
        MessageLocation::Left => (MessageState::Done, None),
        _ => return None,
    };
    Some(MessageQueue { queue: queue.to_string(), state, message })
}

/// A message that is still in one queue is not done, even if it left another.
fn overall(queues: &[MessageQueue]) -> MessageState {
    let still = queues.iter().find(|it| it.state != MessageState::Done).or(queues.first());
    still.map_or(MessageState::NotKnown, |it| it.state)
}
