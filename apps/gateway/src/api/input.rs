//! JSON request bodies of the operator API.

use std::{marker::PhantomData, sync::Arc};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::{Problem, body::HeldBody, caller::Caller};
use crate::{app::App, config::Role};

/// The maximum size of a request beside a message body.
const REST_BYTES: usize = 1024 * 1024;
/// The maximum length of a reason.
const REASON_LIMIT_CHARS: usize = 500;

/// A JSON object in the body of a request, not read yet: nobody may fill the gateway's memory with a request that they
/// are not allowed to make.
#[derive(Debug)]
pub(super) struct Input<T> {
    body: Body,
    /// Whether it says that it is JSON; who is not allowed to ask learns that first.
    kind: Result<(), Problem>,
    object: PhantomData<T>,
}

impl<T> FromRequest<Arc<App>> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Problem> {
        let kind = is_json(request.headers());
        Ok(Self { body: request.into_body(), kind, object: PhantomData })
    }
}

impl<T: DeserializeOwned> Input<T> {
    /// Reads the object if the caller has `role`.
    pub(super) async fn read(self, app: &App, caller: &Caller, role: Role) -> Result<T, Problem> {
        caller.needs(role, None)?;
        self.kind?;
        parse(&app.body_memory.read(self.body, REST_BYTES).await?)
    }

    /// The same for an object that contains a message body; also returns what holds its memory.
    pub(super) async fn read_with_body<'a>(
        self,
        app: &'a App,
        caller: &Caller,
        role: Role,
    ) -> Result<(T, HeldBody<'a>), Problem> {
        caller.needs(role, None)?;
        self.kind?;
        let body = read_large(self.body, app).await?;
        Ok((parse(&body)?, body))
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
pub(super) async fn read_large(body: Body, app: &App) -> Result<HeldBody<'_>, Problem> {
    let limit_bytes = app.max_body_bytes().div_ceil(3) * 4 + REST_BYTES;
    app.body_memory.read(body, limit_bytes).await
}

fn parse<T: DeserializeOwned>(body: &HeldBody<'_>) -> Result<T, Problem> {
    // serde would also take an array of the members.
    if !body.bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::bad_request("the body must be a JSON object; see /openapi.json"));
    }
    // serde's message may quote a value, so only the position is reported.
    serde_json::from_slice(&body.bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Problem::bad_request(format!(
            "unexpected JSON at line {line}, column {column}; see /openapi.json"
        ))
    })
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
