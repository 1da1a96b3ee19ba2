//! What came of a call.

use std::{fmt, time::Duration};

use bezoar::{Code, Failure};
use http::StatusCode;
use jiff::Timestamp;

use super::{
    CallError,
    classify::{Meaning, classify},
    client::NoReply,
    reply::EndpointReply,
};

/// The code of a success, which is not shown anywhere.
pub(super) const OK: Code = Code::from_static("http.2xx");

/// What came of a call, as it came: nobody is blamed and nothing is decided.
///
/// `Debug` shows the verdict and the code, never the endpoint's text.
pub struct CallReport(pub(super) CallEnd);

/// How a call ended.
pub(super) enum CallEnd {
    /// With a reply.
    Replied(EndpointReply),
    /// Without one.
    NoReply(NoReply),
}

/// Whether an endpoint took a message. Exhaustive: a call ends in one of these ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It took the message.
    Accepted,
    /// It did not, or nobody knows: any other status, no connection, no complete reply. It may later.
    Refused,
    /// It never will.
    Rejected,
}

impl CallReport {
    /// Whether the endpoint took the message.
    pub fn verdict(&self) -> Verdict {
        match self.meaning() {
            Meaning::Done => Verdict::Accepted,
            Meaning::NotDone(..) | Meaning::Denied(_) => Verdict::Refused,
        }
    }

    /// The status of the reply, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0 {
            CallEnd::Replied(reply) => Some(reply.status),
            CallEnd::NoReply(_) => None,
        }
    }

    /// Why there was no reply, if there was none.
    pub fn error(&self) -> Option<&CallError> {
        match &self.0 {
            CallEnd::Replied(_) => None,
            CallEnd::NoReply(no_reply) => Some(&no_reply.error),
        }
    }

    /// A code that is safe to show: `http.503`, `connect.refused`, `timeout`, or what the endpoint's problem document names.
    pub fn code(&self) -> Code {
        self.failure().map_or(OK, |failure| failure.code)
    }

    /// The failure, unless the message was accepted: kind and code as on a route, and the endpoint's text as hidden detail.
    pub fn failure(&self) -> Option<Failure> {
        match self.meaning() {
            Meaning::Done => None,
            Meaning::NotDone(_, failure) => Some(failure),
            Meaning::Denied(_) => self.error().map(CallError::failure),
        }
    }

    /// Without `Retry-After`, which is relative to a time.
    fn meaning(&self) -> Meaning {
        classify(self, Timestamp::UNIX_EPOCH, Duration::ZERO)
    }
}

impl From<Result<EndpointReply, NoReply>> for CallReport {
    fn from(ended: Result<EndpointReply, NoReply>) -> Self {
        Self(match ended {
            Ok(reply) => CallEnd::Replied(reply),
            Err(no_reply) => CallEnd::NoReply(no_reply),
        })
    }
}

impl fmt::Debug for CallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallReport")
            .field("verdict", &self.verdict())
            .field("code", &self.code())
            .finish_non_exhaustive()
    }
}
