//! `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::{Problem, caller::Caller};
use crate::{app::App, config::Role, telemetry::CONTENT_TYPE};

/// The process is alive.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Messages are accepted: the store answers and the gateway is not stopping.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let not_ready = |detail| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail);
    if app.is_stopping() {
        return Err(not_ready("the gateway is stopping"));
    }
    if app.was_full() {
        return Err(not_ready("the store is full and refuses messages"));
    }
    app.bezoar().admin().queues().await.map_err(|_| not_ready("the store does not answer"))?;
    Ok(Json(json!({ "status": "ready" })))
}

/// Metrics in the Prometheus text format. No token is required while the gateway listens on loopback.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    caller: Result<Caller, Problem>,
) -> Result<impl IntoResponse, Problem> {
    if !app.is_on_loopback() {
        caller?.needs_everywhere(Role::Viewer)?; // metrics cover all queues
    }
    if !app.metrics().is_on() {
        return Err(Problem::not_found("metrics are turned off by telemetry.metrics"));
    }
    app.measure_queues().await;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], app.metrics().render()))
}
