//! Why there is no answer, or not the one that was hoped for.

use std::{error::Error, fmt, time::Duration};

use hyper_util::client::legacy;

use super::{Problem, Url};

/// What went wrong with a request.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// No connection came about: nothing was sent.
    Unreachable {
        url: Url,
        /// It answered earlier, so that it may come back.
        was_there: bool,
        source: legacy::Error,
    },
    /// The connection broke: whether the gateway did what was asked is not known.
    Broken { url: Url, source: Box<dyn Error + Send + Sync> },
    /// The connection broke while the answer came.
    BrokenOff { url: Url, source: Box<dyn Error + Send + Sync> },
    /// No answer in time: not known either.
    Late { url: Url, deadline: Duration },
    /// The gateway said no.
    Refused(Problem),
    /// The gateway did it, and said so in words that we do not know.
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

    /// Whether the gateway may have done what was asked all the same.
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

    /// When another try makes sense, if the gateway said so.
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
            Self::Unreachable { url, .. } => {
                let remedy = "start one with `bezoar up`, or set --url";
                write!(f, "no gateway answers at {url}; {remedy}")
            }
            Self::Broken { url, .. } => {
                write!(f, "the gateway at {url} broke the connection before it answered")
            }
            Self::BrokenOff { url, .. } => write!(f, "the gateway at {url} broke off its answer"),
            Self::Late { url, deadline } => {
                write!(f, "the gateway at {url} did not answer within {} s", deadline.as_secs())
            }
            Self::Refused(problem) => problem.fmt(f),
            Self::NotUnderstood(error) => {
                // serde's own text may quote what came.
                let place = (error.line(), error.column());
                write!(f, "the answer is not what this version understands (at {place:?})")
            }
        }
    }
}

impl Error for ClientError {
    /// The last cause: those between say only that something was caused.
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
