//! What is where, how routes do, pause and resume.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{Problem, caller::Caller, segment::Segment};
use crate::{app::App, config::Role};

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let mut rows = Vec::new();
    for queue in app.queues().into_iter().filter(|queue| caller.sees(queue)) {
        rows.push(app.figures(&queue).await?.to_json());
    }
    Ok(Json(Value::Array(rows)))
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(route): Segment,
) -> Result<Json<Value>, Problem> {
    set_paused(&app, &caller, &route, true)
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(route): Segment,
) -> Result<Json<Value>, Problem> {
    set_paused(&app, &caller, &route, false)
}

fn set_paused(
    app: &App,
    caller: &Caller,
    name: &str,
    paused: bool,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Operator, None)?;
    let route = app.route(name, |route| caller.sees(route.queue()))?;
    if paused {
        route.pause("paused by an operator")
    } else {
        route.resume()
    }
    Ok(Json(json!({ "route": route.name(), "paused": paused })))
}
