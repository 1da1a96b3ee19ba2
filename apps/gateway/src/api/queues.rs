//! `/v1/queues`: counts and route states; pausing and resuming routes.

use std::sync::Arc;

use axum::{Json, extract::State};
use bezoar::{QueueName, catalogue::Verb};

use super::{
    Problem,
    caller::Caller,
    parameters::{QueuePath, RoutePath},
    segment::Segment,
};
use crate::{
    api_types::{Page, QueueStatus, RoutePause, RouteStatus},
    app::App,
    config::Role,
    route::{PAUSED, paused_setting},
};

/// Lists queues with their message counts and routes; unknown values are null.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    responses((status = 200, description = "Success.", body = Vec<QueueStatus>))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Vec<QueueStatus>>, Problem> {
    caller.needs(Role::Viewer, None)?;
    app.broker_counts.refresh().await;
    let mut rows = Vec::new();
    for queue in app.queues().into_iter().filter(|queue| caller.sees(queue)) {
        rows.push(app.queue_status(&queue).await?.to_api());
    }
    Ok(Json(rows))
}

/// Returns a queue with its message counts and its route; unknown values are null.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "get_queue", tag = "queues", params(QueuePath),
    responses((status = 200, description = "Success.", body = QueueStatus))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(queue): Segment,
) -> Result<Json<QueueStatus>, Problem> {
    let queue = QueueName::new(queue).map_err(Problem::unknown)?;
    caller.needs(Role::Viewer, Some(&queue))?;
    app.known(&queue, |queue| caller.sees(queue))?;
    Ok(Json(app.queue_status(&queue).await?.to_api()))
}

/// Lists routes and their states, by name.
#[utoipa::path(
    get, path = "/v1/routes", operation_id = "list_routes", tag = "routes",
    responses((status = 200, description = "Success.", body = Page<RouteStatus>))
)]
pub(super) async fn routes(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Page<RouteStatus>>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let all = app.routes();
    let seen = all.iter().filter(|route| caller.sees(route.queue()));
    Ok(Json(Page::whole(seen.map(|route| route.to_api()).collect())))
}

/// Pauses a route; its messages wait.
#[utoipa::path(
    post, path = "/v1/routes/{route}/pause", operation_id = "pause_route", tag = "routes",
    params(RoutePath),
    responses((status = 200, description = "Success.", body = RoutePause))
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(route): Segment,
) -> Result<Json<RoutePause>, Problem> {
    set_paused(&app, &caller, &route, Verb::Pause).await
}

/// Resumes a route.
#[utoipa::path(
    post, path = "/v1/routes/{route}/resume", operation_id = "resume_route", tag = "routes",
    params(RoutePath),
    responses((status = 200, description = "Success.", body = RoutePause))
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(route): Segment,
) -> Result<Json<RoutePause>, Problem> {
    set_paused(&app, &caller, &route, Verb::Resume).await
}

/// Stores the pause before it takes effect, so that it survives a restart.
async fn set_paused(
    app: &App,
    caller: &Caller,
    name: &str,
    verb: Verb,
) -> Result<Json<RoutePause>, Problem> {
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
    Ok(Json(RoutePause { route: route.name().to_owned(), paused }))
}
