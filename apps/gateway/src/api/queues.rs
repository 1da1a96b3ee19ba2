//! `/v1/queues`: counts and route states; pausing and resuming routes.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::catalogue::Verb;
use serde_json::{Value, json};

use super::{Problem, caller::Caller, segment::Segment};
use crate::{
    app::App,
    config::Role,
    route::{PAUSED, paused_setting},
};

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let mut rows = Vec::new();
    for queue in app.queues().into_iter().filter(|queue| caller.sees(queue)) {
        rows.push(app.queue_status(&queue).await?.to_json());
    }
    Ok(Json(Value::Array(rows)))
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(route): Segment,
) -> Result<Json<Value>, Problem> {
    set_paused(&app, &caller, &route, Verb::Pause).await
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(route): Segment,
) -> Result<Json<Value>, Problem> {
    set_paused(&app, &caller, &route, Verb::Resume).await
}

/// Stores the pause before it takes effect, so that it survives a restart.
async fn set_paused(
    app: &App,
    caller: &Caller,
    name: &str,
    verb: Verb,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Operator, None)?;
    let route = app.route(name, |route| caller.sees(route.queue()))?;
    let paused = verb == Verb::Pause;
    let action = caller.action(verb, format!("route {}", route.name()), String::new());
    let (setting, kept) = (paused_setting(route.name()), paused.then_some("by an operator"));
    app.catalogue().set(&setting, kept, &action).await?;
    let route = app.route(name, |_| true)?; // a reload may have replaced it meanwhile
    match paused {
        true => route.pause(PAUSED),
        false => route.resume(app.now()),
    }
    Ok(Json(json!({ "route": route.name(), "paused": paused })))
}
