//! How calls end, and what follows for their messages.

use std::time::Duration;

/// How a call of an endpoint ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The endpoint took the message (2xx).
    Done,
    /// It answered about the message: most 4xx.
    Answered,
    /// It asked to wait (429, or 503 with `Retry-After`).
    Throttled {
        /// For how long, if it said so.
        after: Option<Duration>,
    },
    /// Nothing was sent: name resolution, refused, unreachable, no connection in time, TLS.
    Unsent,
    /// The connection ended without an answer after the request was sent, or a proxy answered (502, 503, 504).
    Ambiguous {
        /// Whether it was a newly accepted connection that ended without an answer.
        fresh_connection: bool,
    },
    /// The credential or the URL is wrong (401, 403, 404, 405, 3xx).
    Misdirected,
    /// The endpoint is gone for good (410).
    Gone,
    /// The endpoint failed at it (500 and other 5xx), timed out, or sent half a reply.
    Failed,
}

impl CallOutcome {
    /// Whether it is evidence that the endpoint does not work.
    pub(super) fn is_evidence(self) -> bool {
        !matches!(self, Self::Done | Self::Answered | Self::Gone)
    }

    /// Whether one probe at a time has to do: each may cost something.
    pub(super) fn calls_for_care(self) -> bool {
        matches!(self, Self::Ambiguous { .. } | Self::Misdirected)
    }

    /// The least pause that the endpoint asked for.
    pub(super) fn asked(self) -> Duration {
        match self {
            Self::Throttled { after } => after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// Whose fault a failed call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It speaks of the message: a failure counts as an attempt.
    Counts,
    /// It uses up no retry.
    Uncounted {
        /// Whether it speaks against the message, because its neighbours succeed.
        suspected: bool,
    },
    /// Nothing may be sent until an operator resumes the route; the message is handed back.
    PauseRoute,
}
