//! The HTTP API, all of it under `/v1`. Its requests and answers are in `api_types`.
//!
//! | file | contents |
//! | --- | --- |
//! | `messages.rs`, `batch.rs`, `envelope.rs` | accepting messages and batches |
//! | `dead_letters.rs`, `causes.rs`, `filter.rs` | listing, revealing and editing dead letters; grouping by cause |
//! | `operations.rs` | replays and discards: lists, progress, commands |
//! | `new_operation.rs`, `idempotency.rs` | new replays and discards; repetitions of a request |
//! | `on_broker.rs` | replaying and discarding dead letters that stay on their broker |
//! | `rejections.rs` | why messages were rejected whose dead letters stay on their broker |
//! | `transfer.rs`, `audit.rs` | export and import; the audit log |
//! | `queues.rs` | queue counts, route states, pause and resume |
//! | `poison_retries.rs` | runs of the poison-queue retry processors |
//! | `health.rs` | `/healthz`, `/readyz`, `/metrics` |
//! | `caller.rs` | authentication and authorization of a request |
//! | `status.rs` | `/v1/status`: one verdict with its reasons |
//! | `message_places.rs`, `peek.rs` | where a message is; which messages are in a queue |
//! | `description.rs`, `parameters.rs` | `/openapi.json`, generated |
//! | `request_id.rs` | the id of a request, in its answer and in the log |
//! | `segment.rs`, `input.rs`, `body.rs` | path segments and JSON bodies; how bodies are read |
//! | `problem.rs`, `refusals.rs` | error responses; those that are counted and logged |

mod audit;
mod batch;
mod body;
mod caller;
mod causes;
mod dead_letters;
mod description;
mod envelope;
mod filter;
mod health;
mod idempotency;
mod input;
mod message_places;
mod messages;
mod new_operation;
mod on_broker;
mod operations;
mod parameters;
mod peek;
mod poison_retries;
mod problem;
mod queues;
mod refusals;
mod rejections;
mod request_id;
mod segment;
mod status;
mod transfer;

use std::sync::Arc;

use axum::{Router, middleware};
use http::StatusCode;
use utoipa::OpenApi as _;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use body::BodyMemory;
pub(crate) use problem::Problem;
pub(crate) use refusals::RefusalLog;

use crate::app::App;

/// All routes of the API.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::from(described_routes())
        .fallback(async || Problem::not_found("no such path; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "method not allowed; see /openapi.json",
            )
        })
        .layer(middleware::from_fn_with_state(app.clone(), refusals::watch))
        .layer(middleware::from_fn(request_id::identify))
        .with_state(app)
}

/// The routes and their description.
fn described_routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(description::Description::openapi())
        .routes(routes!(queues::list))
        .routes(routes!(queues::show))
        .routes(routes!(messages::accept, peek::list))
        .routes(routes!(messages::accept_batch))
        .routes(routes!(on_broker::replay))
        .routes(routes!(on_broker::discard))
        .routes(routes!(queues::routes))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(status::show))
        .routes(routes!(message_places::show))
        .routes(routes!(poison_retries::list))
        .routes(routes!(poison_retries::run))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::reveal))
        .routes(routes!(dead_letters::edit))
        .routes(routes!(dead_letters::approve))
        .routes(routes!(rejections::list))
        .routes(routes!(causes::list))
        .routes(routes!(causes::show, causes::mark))
        .routes(routes!(operations::list_replays, new_operation::replay))
        .routes(routes!(operations::show, operations::command))
        .routes(routes!(operations::messages))
        .routes(routes!(operations::list_discards, new_operation::discard))
        .routes(routes!(transfer::export))
        .routes(routes!(transfer::import))
        .routes(routes!(audit::list))
        .routes(routes!(caller::whoami))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(description::openapi))
}
