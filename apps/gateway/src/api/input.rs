//! JSON request bodies of the operator API.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Problem;
use crate::app::App;

/// The maximum size of a request beside a message body.
const REST_BYTES: usize = 1024 * 1024;
/// How long a client may take to send the body.
const DEADLINE: Duration = Duration::from_secs(30);
/// The maximum length of a reason.
const REASON_LIMIT_CHARS: usize = 500;

/// A JSON object in the body of a request.
#[derive(Debug)]
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        is_json(request.headers())?;
        let body = read(request, app).await?;
        // serde's message may quote a value, so only the position is reported.
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Problem::bad_request(format!(
                "unexpected JSON at line {line}, column {column}; see /openapi.json"
            ))
        })
    }
}

/// Fails if the body says that it is something else than JSON.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || essence.ends_with("+json") {
        return Ok(());
    }
    let detail = "the body must be JSON, with content-type application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail))
}

/// Reads a whole request, which may contain the largest accepted body in base64.
pub(super) async fn read(request: Request, app: &App) -> Result<Bytes, Problem> {
    let limit_bytes = app.max_body_bytes().div_ceil(3) * 4 + REST_BYTES;
    let collected = timeout(DEADLINE, Limited::new(request.into_body(), limit_bytes).collect());
    match collected.await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(_)) => Err(Problem::bad_request(format!(
            "the request body is incomplete or larger than {limit_bytes} bytes"
        ))),
        Err(_) => Err(Problem::bad_request("timed out reading the request body")),
    }
}

/// Checks the reason for an action.
pub(super) fn reason(text: &str) -> Result<String, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Problem::bad_request(
            "a reason is required; it is recorded in the audit log with your name",
        ));
    }
    if text.chars().count() > REASON_LIMIT_CHARS || text.contains(char::is_control) {
        let most = REASON_LIMIT_CHARS;
        return Err(Problem::bad_request(format!(
            "a reason must be one line of at most {most} characters"
        )));
    }
    Ok(text.to_owned())
}
