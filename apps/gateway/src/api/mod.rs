//! The HTTP API, all of it under `/v1`.
//!
//! | file | contents |
//! | --- | --- |
//! | `messages.rs`, `envelope.rs` | accepting messages and batches |
//! | `dead_letters.rs`, `causes.rs`, `filter.rs` | listing, revealing and editing dead letters; grouping by cause |
//! | `operations.rs` | replays and discards |
//! | `on_broker.rs` | replaying and discarding dead letters that stay on their broker |
//! | `rejections.rs` | why messages were rejected whose dead letters stay on their broker |
//! | `transfer.rs`, `audit.rs` | export and import; the audit log |
//! | `views.rs` | the JSON of everything that is returned |
//! | `queues.rs` | queue counts, route states, pause and resume |
//! | `poison_retries.rs` | runs of the poison-queue retry processors |
//! | `health.rs` | `/healthz`, `/readyz`, `/metrics` |
//! | `caller.rs` | authentication and authorization of a request |
//! | `description.rs` | `/openapi.json` |
//! | `segment.rs`, `input.rs` | extractors for path segments and JSON bodies |
//! | `problem.rs` | error responses |

mod audit;
mod caller;
mod causes;
mod dead_letters;
mod description;
mod envelope;
mod filter;
mod health;
mod input;
mod messages;
mod on_broker;
mod operations;
mod poison_retries;
mod problem;
mod queues;
mod rejections;
mod segment;
mod transfer;
mod views;

use std::sync::Arc;

use axum::{
    Router,
    routing::{get, post},
};
use http::StatusCode;

pub(crate) use problem::Problem;

use crate::app::App;

/// All routes of the API.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/queues", get(queues::list))
        .route("/v1/queues/{queue}/messages", post(messages::accept))
        .route("/v1/queues/{queue}/batches", post(messages::accept_batch))
        .route("/v1/queues/{queue}/replay", post(on_broker::replay))
        .route("/v1/queues/{queue}/discard", post(on_broker::discard))
        .route("/v1/routes/{route}/pause", post(queues::pause))
        .route("/v1/routes/{route}/resume", post(queues::resume))
        .route("/v1/poison-retries", get(poison_retries::list))
        .route("/v1/poison-retries/{queue}/runs", post(poison_retries::run))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/{id}", get(dead_letters::show))
        .route("/v1/dead-letters/{id}/reveal", post(dead_letters::reveal))
        .route("/v1/dead-letters/{id}/edits", post(dead_letters::edit))
        .route("/v1/dead-letters/{id}/approve", post(dead_letters::approve))
        .route("/v1/rejections", get(rejections::list))
        .route("/v1/causes", get(causes::list))
        .route("/v1/causes/{cause}", post(causes::mark))
        .route("/v1/replays", get(operations::list).post(operations::replay))
        .route("/v1/replays/{id}", get(operations::show).post(operations::command))
        .route("/v1/replays/{id}/messages", get(operations::messages))
        .route("/v1/discards", post(operations::discard))
        .route("/v1/exports", post(transfer::export))
        .route("/v1/imports", post(transfer::import))
        .route("/v1/audit", get(audit::list))
        .route("/v1/whoami", get(caller::whoami))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(description::openapi))
        .fallback(async || Problem::not_found("no such path; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "method not allowed; see /openapi.json",
            )
        })
        .with_state(app)
}
