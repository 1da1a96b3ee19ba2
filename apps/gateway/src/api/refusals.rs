//! Counts and logs requests that are refused for lack of permission or of room: wrong tokens, missing roles, bodies that
//! are too large, a gateway that is too busy. The log is bounded, because strangers decide how many there are.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use http::StatusCode;
use tokio::time::Instant;

use super::problem::RefusalReason;
use crate::{app::App, server::Peer};

/// How many refusals for the same reason are logged in a while.
const LINES: u32 = 10;
const WHILE: Duration = Duration::from_secs(60);

/// What was logged recently, by reason.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<BTreeMap<&'static str, LoggedLately>>);

#[derive(Debug)]
struct LoggedLately {
    since: Instant,
    lines: u32,
    /// How many were not logged since the last line.
    left_out: u64,
}

/// Looks at the answer to every request.
pub(super) async fn watch(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().map(|peer| peer.address);
    let path = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    if is_watched(response.status())
        && let Some(RefusalReason(reason)) = response.extensions().get()
    {
        app.metrics.request_refused(response.status().as_u16(), reason);
        // Not the path itself: it may contain anything.
        let path = path.as_ref().map_or("", |path| path.as_str());
        app.refusal_log.log(response.status(), reason, peer, path);
    }
    response
}

fn is_watched(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::SERVICE_UNAVAILABLE
    )
}

impl RefusalLog {
    fn log(&self, status: StatusCode, reason: &'static str, peer: Option<IpAddr>, path: &str) {
        if let Some(left_out) = self.admit(reason, Instant::now()) {
            let (status, peer) = (status.as_u16(), peer.map(tracing::field::display));
            tracing::warn!(status, reason, peer, path, left_out, "request refused");
        }
    }

    /// Whether one more is logged; if so, how many were not since the last.
    fn admit(&self, reason: &'static str, now: Instant) -> Option<u64> {
        let mut reasons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || LoggedLately { since: now, lines: 0, left_out: 0 };
        let lately = reasons.entry(reason).or_insert_with(fresh);
        if now.duration_since(lately.since) >= WHILE {
            *lately = LoggedLately { left_out: lately.left_out, ..fresh() };
        }
        if lately.lines == LINES {
            lately.left_out += 1;
            return None;
        }
        lately.lines += 1;
        Some(std::mem::take(&mut lately.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_says_how_many_it_left_out() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let lines =
            |now| (0..1_000).filter_map(|_| log.admit("unknown-token", now)).collect::<Vec<_>>();
        assert_eq!(lines(start), [0; LINES as usize]);
        assert_eq!(log.admit("forbidden", start), Some(0), "another reason has lines of its own");
        assert!(lines(start + WHILE / 2).is_empty());
        let later = lines(start + WHILE);
        assert_eq!(later[0], 1_990);
        assert_eq!(later.len(), LINES as usize);
    }
}
