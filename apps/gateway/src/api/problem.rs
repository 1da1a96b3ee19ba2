//! Error responses: `application/problem+json` (RFC 9457).

use std::time::Duration;

use axum::{
    BoxError, Json,
    response::{IntoResponse, Response},
};
use bezoar::{
    ErrorKind, Invalid, InvalidId, TransportError,
    catalogue::{CatalogueError, ItemState},
    ops::EditError,
};
use http::{HeaderValue, StatusCode, header};

use crate::api_types::{self, Holder};

/// An error response: a code for programs and a detail for people. Never a body or a header value.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    /// A more specific code for metrics and the log.
    reason: &'static str,
    retry_after: Option<Duration>,
    document: Box<api_types::Problem>,
}

/// Why a request was refused, in the extensions of the response.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusalReason(pub(super) &'static str);

impl Problem {
    /// A problem with a status, a code and a detail.
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let document = api_types::Problem {
            r#type: api_types::Problem::type_of(code),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            ..Default::default()
        };
        Self { status, code, reason: code, retry_after: None, document: Box::new(document) }
    }

    /// The request is invalid.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// The resource does not exist.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// A name or id that nothing can have: as unknown as one that nothing has.
    pub(crate) fn unknown(invalid: impl std::fmt::Display) -> Self {
        Self::not_found(invalid.to_string())
    }

    /// Another number was expected.
    pub(crate) fn unexpected(detail: impl Into<String>, expected: u64, found: u64) -> Self {
        let problem = Self::new(StatusCode::CONFLICT, "unexpected", detail);
        problem.with(|it| (it.expected, it.found) = (Some(expected), Some(found)))
    }

    /// Adds the time after which the client should try again.
    pub(crate) fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Sets a code for metrics and the log that is more specific than the one in the answer.
    pub(crate) fn counted_as(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Adds members.
    pub(crate) fn with(mut self, add: impl FnOnce(&mut api_types::Problem)) -> Self {
        add(&mut self.document);
        self
    }

    /// The text for people.
    pub(crate) fn detail(&self) -> &str {
        &self.document.detail
    }

    /// The code for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

impl From<InvalidId> for Problem {
    fn from(invalid: InvalidId) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

/// The transports of stores.
const STORES: [&str; 2] = ["sqlite", "postgres"];

impl From<TransportError> for Problem {
    fn from(error: TransportError) -> Self {
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{}: {source}", error.kind),
            None => error.kind.to_string(),
        };
        let (second, on_broker) = (Duration::from_secs(1), !STORES.contains(&error.transport));
        match &error.kind {
            ErrorKind::TooLarge { limit_bytes, .. } => {
                let text = format!("{}: {text}", error.transport);
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text)
                    .with(|it| it.limit_bytes = Some(*limit_bytes as u64))
            }
            ErrorKind::Conflict(_) => Self::new(StatusCode::CONFLICT, "conflict", text),
            ErrorKind::QueueNotFound(_) => Self::not_found(text),
            ErrorKind::Invalid(_) | ErrorKind::Unsupported(_) => Self::bad_request(text),
            ErrorKind::Full => Self::new(StatusCode::INSUFFICIENT_STORAGE, "store-full", text)
                .retry_after(10 * second),
            ErrorKind::Throttled { retry_after } => {
                let after = retry_after.unwrap_or(second);
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "throttled", text).retry_after(after)
            }
            ErrorKind::OutcomeUnknown if on_broker => {
                let text = format!("{text}; send it again, at the risk of a duplicate");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", text)
                    .retry_after(second)
            }
            ErrorKind::OutcomeUnknown => {
                let text = format!(
                    "{text}; send it again with the same Bezoar-Id, which makes it safe to repeat"
                );
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", text)
                    .retry_after(second)
            }
            _ => {
                let code = if on_broker { "broker-unavailable" } else { "store-unavailable" };
                Self::new(StatusCode::SERVICE_UNAVAILABLE, code, text).retry_after(second)
            }
        }
    }
}

impl From<CatalogueError> for Problem {
    fn from(error: CatalogueError) -> Self {
        let text = error.to_string();
        match error {
            CatalogueError::Store(error) => error.into(),
            CatalogueError::Invalid(invalid) => invalid.into(),
            CatalogueError::Replayed { operation, state, .. } => {
                let again = match state {
                    ItemState::Failed { again, .. } => Some(again.to_string()),
                    _ => None,
                };
                Self::not_found(text).with(|it| {
                    (it.operation, it.new_dead_letter) = (Some(operation.to_string()), again);
                })
            }
            CatalogueError::Discarded { operation, .. } => {
                Self::not_found(text).with(|it| it.operation = Some(operation.to_string()))
            }
            CatalogueError::Held { held } => Self::new(StatusCode::CONFLICT, "held", text)
                .with(|it| it.held = Holder::all(&held)),
            CatalogueError::NoDeadLetter(_)
            | CatalogueError::NoCause(_)
            | CatalogueError::NoOperation(_) => Self::not_found(text),
            CatalogueError::InProgress => Self::new(StatusCode::CONFLICT, "in-progress", text)
                .retry_after(Duration::from_secs(1)),
            CatalogueError::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", text)
            }
            CatalogueError::Unexpected { expected, found } => {
                Self::unexpected(text, expected, found)
            }
            _ => Self::new(StatusCode::CONFLICT, "conflict", text),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        let status = match error {
            EditError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, "no-edit", error.to_string())
    }
}

/// An aborted stream cannot report why; its reader notices that it is incomplete.
impl From<Problem> for BoxError {
    fn from(problem: Problem) -> Self {
        problem.document.detail.into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.document)).into_response();
        response.extensions_mut().insert(RefusalReason(self.reason));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, after.as_secs().max(1).into());
        }
        response
    }
}
