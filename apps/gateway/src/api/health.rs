//! `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};

use super::{Problem, caller::Caller};
use crate::{
    api_types::{self, Health, HealthState},
    app::App,
    config::{MetricsAccess, Role},
    telemetry::CONTENT_TYPE,
};

/// Answers while the process is alive.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_health", tag = "gateway", security(()),
    responses((status = 200, description = "Success.", body = Health))
)]
pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: HealthState::Ok })
}

/// Answers with success while messages are accepted.
#[utoipa::path(
    get, path = "/readyz", operation_id = "get_readiness", tag = "gateway", security(()),
    responses((status = 200, description = "Success.", body = Health))
)]
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Health>, Problem> {
    let not_ready = |detail| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail);
    if app.is_stopping() {
        return Err(not_ready("the gateway is stopping"));
    }
    app.writes.check(&*app.catalogue).await.map_err(not_ready)?;
    Ok(Json(Health { status: HealthState::Ready }))
}

/// Returns metrics. No token is required if telemetry.metrics_access is open.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "gateway", security((), ("token" = [])),
    responses(
        (status = 200, description = "The Prometheus text format.", body = String, content_type = "text/plain"),
        (status = 401, description = "Unauthorized", body = api_types::Problem, content_type = "application/problem+json"),
        (status = 403, description = "Forbidden", body = api_types::Problem, content_type = "application/problem+json"),
        (status = 404, description = "Metrics are turned off.", body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    caller: Result<Caller, Problem>,
) -> Result<impl IntoResponse, Problem> {
    if app.metrics_access == MetricsAccess::Token {
        caller?.needs_everywhere(Role::Viewer)?; // metrics cover all queues
    }
    if !app.metrics().is_on() {
        return Err(Problem::not_found("metrics are turned off by telemetry.metrics"));
    }
    app.broker_counts.refresh().await;
    app.measure_queues().await;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], app.metrics().render()))
}
