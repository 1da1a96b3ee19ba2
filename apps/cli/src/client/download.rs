//! A response that is read in chunks, because it may be of any length.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{ClientError, Url};

/// How long the next chunk may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The body of a response, read in chunks.
#[derive(Debug)]
pub(crate) struct Download {
    url: Url,
    body: Incoming,
}

impl Download {
    pub(super) fn new(url: Url, body: Incoming) -> Self {
        Self { url, body }
    }

    /// The next chunk, `None` at the end. A truncated body is an error, never the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let frame = timeout(PATIENCE, self.body.frame());
            let frame = frame.await.map_err(|_| self.late())?;
            match frame.map(|frame| frame.map(|it| it.into_data())) {
                None => return Ok(None),
                Some(Ok(Ok(piece))) => return Ok(Some(piece)),
                Some(Ok(Err(_trailers))) => {}
                Some(Err(source)) => {
                    return Err(ClientError::BrokenOff {
                        url: self.url.clone(),
                        source: source.into(),
                    });
                }
            }
        }
    }

    fn late(&self) -> ClientError {
        ClientError::Late { url: self.url.clone(), deadline: PATIENCE }
    }
}
