//! The archive that messages are delivered to: a user's endpoint on a bad day.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use rand::RngExt;
use serde::Deserialize;
use serde_json::json;

use super::{narrator::Narrator, traffic::UNKNOWN_ANALYTE};
use crate::local_endpoint::EndpointResponse;

/// Far more than anybody sends.
const BODY_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// The archive. Clones share its state.
#[derive(Debug, Clone)]
pub(super) struct Archive {
    is_down: Arc<AtomicBool>,
    narrator: Arc<Narrator>,
}

/// What it reads from a body; messages sent by hand may lack all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ArchiveRecord {
    analyte: String,
    busy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArchiveDecision {
    Accept,
    RetryLater,
    Refuse,
    Down,
}

impl Archive {
    pub(super) fn new(narrator: Arc<Narrator>) -> Self {
        Self { is_down: Arc::default(), narrator }
    }

    pub(super) fn go_down(&self) {
        self.is_down.store(true, Ordering::Relaxed);
    }

    pub(super) fn come_back(&self) {
        self.is_down.store(false, Ordering::Relaxed);
    }

    /// Waits a moment, then decides.
    pub(super) async fn answer(self, request: Request<Incoming>) -> EndpointResponse {
        let (head, body) = request.into_parts();
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let body = Limited::new(body, BODY_LIMIT_BYTES).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let pause = rand::rng().random_range(5..60);
        tokio::time::sleep(Duration::from_millis(pause)).await;

        // Not the attempt number: being busy does not use up attempts.
        let delivery = text("bezoar-delivery").and_then(|it| it.parse().ok()).unwrap_or(1);
        let record = serde_json::from_slice(&body).unwrap_or_default();
        let is_replayed = head.headers.contains_key("bezoar-replay");
        let decision = match self.is_down.load(Ordering::Relaxed) {
            true => ArchiveDecision::Down,
            false => decide(&record, delivery, is_replayed),
        };
        let (id, kind) = (text("bezoar-id").unwrap_or("?"), text("bezoar-type").unwrap_or("?"));
        match decision {
            ArchiveDecision::Accept if delivery > 1 => {
                self.narrator.accepted_on_retry(id, kind, delivery)
            }
            ArchiveDecision::RetryLater => self.narrator.failed(id, kind, "503, retry after 1 s"),
            ArchiveDecision::Down => self.narrator.failed(id, kind, "503"),
            ArchiveDecision::Accept | ArchiveDecision::Refuse => (),
        }
        decision.reply()
    }
}

/// Refused results are accepted when they are replayed: the archive was fixed by then.
fn decide(record: &ArchiveRecord, delivery: u32, is_replayed: bool) -> ArchiveDecision {
    match record {
        ArchiveRecord { analyte, .. } if analyte == UNKNOWN_ANALYTE && !is_replayed => {
            ArchiveDecision::Refuse
        }
        ArchiveRecord { busy: true, .. } if delivery == 1 => ArchiveDecision::RetryLater,
        _ => ArchiveDecision::Accept,
    }
}

impl ArchiveDecision {
    fn reply(self) -> EndpointResponse {
        let mut reply = Response::new(Full::default());
        *reply.status_mut() = match self {
            Self::Accept => StatusCode::OK,
            Self::Refuse => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RetryLater | Self::Down => StatusCode::SERVICE_UNAVAILABLE,
        };
        if self == Self::RetryLater {
            reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self == Self::Refuse {
            let problem = json!({
                "type": "https://example.org/problems/unknown-analyte",
                "title": "Unknown analyte",
                "status": 422,
            });
            let content_type = HeaderValue::from_static("application/problem+json");
            reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
            *reply.body_mut() = Full::new(Bytes::from(problem.to_string()));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_busy_once_and_refuses_unknown_analytes_until_they_are_replayed() {
        let record = |analyte: &str, busy| ArchiveRecord { analyte: analyte.to_owned(), busy };
        for (record, delivery, is_replayed, expected) in [
            (record("", false), 1, false, ArchiveDecision::Accept),
            (record("haemoglobin", true), 1, false, ArchiveDecision::RetryLater),
            (record("haemoglobin", true), 2, false, ArchiveDecision::Accept),
            (record(UNKNOWN_ANALYTE, true), 1, false, ArchiveDecision::Refuse),
            (record(UNKNOWN_ANALYTE, false), 1, true, ArchiveDecision::Accept),
        ] {
            assert_eq!(decide(&record, delivery, is_replayed), expected, "{record:?}");
        }
        assert_eq!(ArchiveDecision::RetryLater.reply().headers()["retry-after"], "1");
        assert_eq!(ArchiveDecision::Refuse.reply().status(), 422);
    }
}
