//! Extracts the variable segment of a path.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use super::Problem;

/// The variable segment of a path, decoded.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        // axum's own rejection is not problem+json.
        let Path(segment) = path.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        Ok(Self(segment))
    }
}
