//! The HTTP API, all of it under `/v1`.
//!
//! | file | what |
//! | --- | --- |
//! | `messages.rs` | acceptance of one message, and of batches |
//! | `queues.rs` | what is where, how routes do, pause and resume |
//! | `dead_letters.rs` | dead letters, without bodies |
//! | `health.rs` | `/healthz`, `/readyz`, `/metrics` |
//! | `caller.rs` | who asks, and whether they may |
//! | `description.rs` | `/openapi.json` |
//! | `segment.rs` | what varies in a path |
//! | `problem.rs` | errors |

mod caller;
mod dead_letters;
mod description;
mod envelope;
mod health;
mod messages;
mod problem;
mod queues;
mod segment;

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
        .route("/v1/routes/{route}/pause", post(queues::pause))
        .route("/v1/routes/{route}/resume", post(queues::resume))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/{id}", get(dead_letters::show))
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
