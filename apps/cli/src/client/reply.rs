//! The body of a successful response.

use std::{borrow::Cow, error::Error};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::ClientError;

/// The largest response that is read: a page of 1,000 dead letters takes less than 1 MiB.
pub(super) const LIMIT_BYTES: usize = 32 * 1024 * 1024;
/// The same with a message body in it: 512 MiB, the largest that a gateway can be configured to accept, in base64.
pub(super) const LIMIT_WITH_BODY_BYTES: usize = 700 * 1024 * 1024;

/// Reads the whole body, up to a limit.
pub(super) async fn read(
    body: hyper::body::Incoming,
    limit_bytes: usize,
) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    Ok(Limited::new(body, limit_bytes).collect().await?.to_bytes())
}

/// The body of a successful response.
#[derive(Debug)]
pub(crate) struct ApiReply(Bytes);

impl ApiReply {
    pub(super) fn new(body: Bytes) -> Self {
        Self(body)
    }

    /// Parses the JSON.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.0).map_err(ClientError::NotUnderstood)
    }

    /// The body as text, for responses that are not JSON.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The JSON exactly as received.
    pub(crate) fn json(&self) -> Result<&RawValue, ClientError> {
        serde_json::from_slice(&self.0).map_err(ClientError::NotUnderstood)
    }
}
