//! What operators send: small JSON objects, checked as a whole.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Problem;
use crate::app::App;

/// What an object may hold beside a body.
const REST_BYTES: usize = 1024 * 1024;
/// How long a client may take to send it.
const DEADLINE: Duration = Duration::from_secs(30);
/// The longest reason that anybody has to give.
const REASON_LIMIT_CHARS: usize = 500;

/// A JSON object in the body of a request.
#[derive(Debug)]
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let body = read(request, app).await?;
        // serde's own text may quote a value, so only the place is passed on.
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Problem::bad_request(format!(
                "the JSON is not what is expected here, see line {line}, column {column}; /openapi.json describes it"
            ))
        })
    }
}

/// The whole of a request, which may hold the largest body that is accepted, in base64.
pub(super) async fn read(request: Request, app: &App) -> Result<Bytes, Problem> {
    let limit_bytes = app.max_body_bytes().div_ceil(3) * 4 + REST_BYTES;
    let collected = timeout(DEADLINE, Limited::new(request.into_body(), limit_bytes).collect());
    match collected.await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(_)) => Err(Problem::bad_request(format!(
            "the body was cut off, or is larger than {limit_bytes} bytes"
        ))),
        Err(_) => Err(Problem::bad_request("the body did not arrive in time")),
    }
}

/// Why somebody does something, in their own words.
pub(super) fn reason(text: &str) -> Result<String, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Problem::bad_request(
            "give a reason: it is written to the audit log, with your name",
        ));
    }
    if text.chars().count() > REASON_LIMIT_CHARS || text.contains(char::is_control) {
        let most = REASON_LIMIT_CHARS;
        return Err(Problem::bad_request(format!(
            "a reason is a line of at most {most} characters"
        )));
    }
    Ok(text.to_owned())
}
