//! Reads a reply, up to a size and time limit.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use super::{AckMode, CallError, CallErrorKind};

/// How much of a reply is read.
pub(super) const REPLY_LIMIT_BYTES: usize = 64 * 1024;

/// The reply of an endpoint. It has no `Debug`, because it may contain personal data.
pub(super) struct EndpointReply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// At most [`REPLY_LIMIT_BYTES`]; empty for a success, unless it is read as an acknowledgement.
    pub(super) body: Vec<u8>,
    pub(super) end: End,
}

/// How far a reply was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// To its end.
    Complete,
    /// To the limit. The rest is ignored.
    Bounded,
    /// Until an error.
    Broken(CallError),
}

impl EndpointReply {
    /// Reads to the end, the limit or the deadline. An unread rest is discarded with its connection.
    pub(super) async fn read(
        response: Response<Incoming>,
        ack: AckMode,
        deadline: Instant,
    ) -> Self {
        let (head, mut incoming) = response.into_parts();
        let mut body = Vec::new();
        let end = if incoming.is_end_stream() {
            End::Complete
        } else {
            let is_read = ack == AckMode::Hl7 || !head.status.is_success();
            let kept = is_read.then_some(&mut body);
            let read = timeout_at(deadline, read_into(&mut incoming, kept)).await;
            read.unwrap_or_else(|_| End::Broken(CallError::plain(CallErrorKind::Timeout)))
        };
        Self { status: head.status, headers: head.headers, body, end }
    }

    /// Whether it is a success that was read to its end or limit.
    pub(super) fn is_readable_success(&self) -> bool {
        self.status.is_success() && !matches!(self.end, End::Broken(_))
    }

    /// What was read of the body, without a last line that the limit cut off.
    pub(super) fn whole_lines(&self) -> &[u8] {
        match self.end {
            End::Bounded => {
                let end = self.body.iter().rposition(|byte| matches!(byte, b'\r' | b'\n'));
                &self.body[..end.unwrap_or(0)]
            }
            _ => &self.body,
        }
    }
}

async fn read_into(incoming: &mut Incoming, mut kept: Option<&mut Vec<u8>>) -> End {
    let mut room = REPLY_LIMIT_BYTES;
    while let Some(frame) = incoming.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_else(|_trailers| Bytes::new()),
            Err(error) => return End::Broken(CallError::reading(&error)),
        };
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&data[..data.len().min(room)]);
        }
        if data.len() > room {
            return End::Bounded;
        }
        room -= data.len();
    }
    End::Complete
}
