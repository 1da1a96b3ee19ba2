//! The outcomes of calls, and what follows for their messages.

use std::time::Duration;

/// The outcome of a call to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The endpoint accepted the message (2xx).
    Done,
    /// The response is about the message: most 4xx.
    Answered,
    /// The endpoint asked to wait (429, or 503 with `Retry-After`).
    Throttled {
        /// How long to wait, if the endpoint said so.
        after: Option<Duration>,
    },
    /// Nothing was sent: DNS failed, the connection was refused or timed out, the host was
    /// unreachable, or TLS failed.
    Unsent,
    /// The connection was closed without a reply after the request was sent, or a proxy answered (502, 503, 504).
    Ambiguous {
        /// Whether the connection that was closed was a new one.
        fresh_connection: bool,
    },
    /// The credential or the URL is wrong (401, 403, 404, 405, 3xx).
    Misdirected,
    /// The endpoint replied, but not with the acknowledgement that the route expects. It may have taken the message.
    Unacknowledged,
    /// The endpoint is gone for good (410).
    Gone,
    /// The endpoint failed (500 and other 5xx), timed out, or sent an incomplete reply.
    Failed,
}

impl CallOutcome {
    /// Whether it is evidence that the endpoint is down.
    pub(super) fn is_evidence(self) -> bool {
        !matches!(self, Self::Done | Self::Answered | Self::Gone)
    }

    /// Whether to use a single probe, because each one may do damage.
    pub(super) fn calls_for_care(self) -> bool {
        matches!(self, Self::Ambiguous { .. }) || self.may_blame_the_route()
    }

    /// Whether the settings of the route are at fault if other messages fail in the same way.
    pub(super) fn may_blame_the_route(self) -> bool {
        matches!(self, Self::Misdirected | Self::Unacknowledged)
    }

    /// How many times the longest pause of the options a pause may last. A probe whose message is taken without being
    /// acknowledged is a duplicate later, so there should be few.
    pub(super) fn patience(self) -> u32 {
        if self == Self::Unacknowledged { 20 } else { 1 }
    }

    /// The minimum pause that the endpoint asked for.
    pub(super) fn asked(self) -> Duration {
        match self {
            Self::Throttled { after } => after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// What a failed call means for its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Judgement {
    /// The outcome is about the message: a failure counts as an attempt.
    Counts,
    /// The failure uses up no retry.
    Uncounted {
        /// Whether the message becomes suspected, because others succeed.
        suspected: bool,
    },
    /// Nothing may be sent until an operator resumes the route; the message is released.
    PauseRoute,
}
