//! The HTTP API, all of it under `/v1`.
//!
//! | file | what |
//! | --- | --- |
//! | `messages.rs` | acceptance of one message, and of batches |
//! | `dead_letters.rs`, `causes.rs` | dead letters and why they died; revealed and edited |
//! | `operations.rs` | replays and discards |
//! | `on_broker.rs` | the same with dead letters that stay on their broker |
//! | `transfer.rs`, `audit.rs` | export and import; who did what |
//! | `queues.rs` | what is where, how routes do, pause and resume |
//! | `health.rs` | `/healthz`, `/readyz`, `/metrics` |
//! | `caller.rs` | who asks, and whether they may |
//! | `description.rs` | `/openapi.json` |
//! | `segment.rs` | what varies in a path |
//! | `problem.rs` | errors |

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
mod problem;
mod queues;
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

/// Everything that is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/queues", get(queues::list))
        .route("/v1/queues/{queue}/messages", post(messages::accept))
        .route("/v1/queues/{queue}/batches", post(messages::accept_batch))
        .route("/v1/queues/{queue}/replay", post(on_broker::replay))
        .route("/v1/queues/{queue}/discard", post(on_broker::discard))
        .route("/v1/routes/{route}/pause", post(queues::pause))
        .route("/v1/routes/{route}/resume", post(queues::resume))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/{id}", get(dead_letters::show))
        .route("/v1/dead-letters/{id}/reveal", post(dead_letters::reveal))
        .route("/v1/dead-letters/{id}/edits", post(dead_letters::edit))
        .route("/v1/dead-letters/{id}/approve", post(dead_letters::approve))
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
        .fallback(async || {
            Problem::not_found("there is nothing here; /openapi.json describes what is")
        })
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "another method is needed here",
            )
        })
        .with_state(app)
}
