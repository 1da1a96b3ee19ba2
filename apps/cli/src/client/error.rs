//! Why a request failed.

use std::{error::Error, fmt, time::Duration};

use hyper_util::client::legacy;

use super::{Problem, Url, UrlSource};

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// No connection: nothing was sent.
    Unreachable {
        url: Url,
        found: UrlSource,
        /// Whether it answered earlier, and may come back.
        was_there: bool,
        source: legacy::Error,
    },
    /// The connection was lost before the response: the outcome is unknown.
    Broken { url: Url, source: Box<dyn Error + Send + Sync> },
    /// The connection was lost within the response.
    BrokenOff { url: Url, source: Box<dyn Error + Send + Sync> },
    /// The request timed out: the outcome is unknown.
    Late { url: Url, deadline: Duration },
    /// The gateway refused the request.
    Refused(Box<Problem>),
    /// The request succeeded, but the response could not be parsed.
    NotUnderstood(serde_json::Error),
}

impl ClientError {
    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { was_there, .. } => *was_there,
            Self::Broken { .. } | Self::BrokenOff { .. } | Self::Late { .. } => true,
            Self::Refused(problem) => problem.is_transient(),
            Self::NotUnderstood(_) => false,
        }
    }

    /// Whether there is no gateway at the URL, at least at present.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether the gateway may have carried out the request nevertheless.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Unreachable { .. } => false,
            Self::Broken { .. }
            | Self::BrokenOff { .. }
            | Self::Late { .. }
            | Self::NotUnderstood(_) => true,
            Self::Refused(problem) => problem.code == "outcome-unknown",
        }
    }

    /// When to try again, if the gateway said so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { url, found, .. } => {
                let remedy = "start one with `bezoar up`, or pass --url";
                write!(f, "cannot connect to a gateway at {url} ({found}); {remedy}")
            }
            Self::Broken { url, .. } => {
                write!(f, "the gateway at {url} closed the connection without a response")
            }
            Self::BrokenOff { url, .. } => {
                write!(f, "the response of the gateway at {url} was cut off")
            }
            Self::Late { url, deadline } => {
                write!(f, "the gateway at {url} did not respond within {} s", deadline.as_secs())
            }
            Self::Refused(problem) => problem.fmt(f),
            Self::NotUnderstood(error) => {
                // serde's message may quote the response.
                let place = (error.line(), error.column());
                write!(
                    f,
                    "cannot parse the gateway's response (at {place:?}); are both of the same version?"
                )
            }
        }
    }
}

impl Error for ClientError {
    /// The root cause: the errors in between add nothing.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(root(source)),
            Self::Broken { source, .. } | Self::BrokenOff { source, .. } => Some(root(&**source)),
            _ => None,
        }
    }
}

fn root<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
