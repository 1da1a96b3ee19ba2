//! For those who watch: is it alive, is it ready, how does it do.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::{Problem, caller::Caller};
use crate::{app::App, config::Role, telemetry::CONTENT_TYPE};

/// The process answers.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Messages can be accepted: the store answers and we are not stopping.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let not_ready = |detail| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail);
    if app.is_stopping() {
        return Err(not_ready("stopping"));
    }
    if app.was_full() {
        return Err(not_ready("the store is full: messages are refused"));
    }
    app.bezoar().admin().queues().await.map_err(|_| not_ready("the store does not answer"))?;
    Ok(Json(json!({ "status": "ready" })))
}

/// Prometheus' text format. Without a token only while we listen on loopback.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    caller: Result<Caller, Problem>,
) -> Result<impl IntoResponse, Problem> {
    if !app.is_on_loopback() {
        caller?.needs_everywhere(Role::Viewer)?; // what is measured is of all queues
    }
    if !app.metrics().is_on() {
        return Err(Problem::not_found("metrics are switched off: telemetry.metrics"));
    }
    app.measure_queues().await;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], app.metrics().render()))
}
