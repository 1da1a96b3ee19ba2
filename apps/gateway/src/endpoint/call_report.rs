//! What came of a call.

use std::{fmt, time::Duration};

use bezoar::{Code, Failure};
use http::StatusCode;
use jiff::Timestamp;

use super::{
    AckCode, CallError,
    classify::{Meaning, classify},
    client::NoReply,
    hl7::{Acknowledgement, BadAck, Unsendable},
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
    /// Before it began: nothing was sent.
    Unsendable(Unsendable),
    /// With a reply, whose status says what it means.
    Replied(EndpointReply),
    /// With a reply that should be an acknowledgement.
    Acknowledged {
        ack: Result<Acknowledgement, BadAck>,
        /// `None` for MLLP.
        status: Option<StatusCode>,
    },
    /// Without a reply.
    NoReply(NoReply),
}

/// Whether an endpoint took a message. Exhaustive: a call ends in one of these ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It took the message: 2xx, or where acknowledgements are read `AA` or `CA`.
    Accepted,
    /// It did not, or nobody knows: any other status, `AE` or `CE`, no acknowledgement, no connection, no complete reply.
    /// It may take the message later.
    Refused,
    /// It never will: `AR` or `CR`, or a message that cannot be sent there, because it has no control id to acknowledge or
    /// contains framing bytes.
    Rejected,
}

impl CallReport {
    /// Whether the endpoint took the message.
    pub fn verdict(&self) -> Verdict {
        match (&self.0, self.meaning()) {
            (_, Meaning::Done) => Verdict::Accepted,
            (CallEnd::Unsendable(_), _) => Verdict::Rejected,
            (CallEnd::Acknowledged { ack: Ok(ack), .. }, _) if ack.code.is_reject() => {
                Verdict::Rejected
            }
            _ => Verdict::Refused,
        }
    }

    /// The HTTP status of the reply, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0 {
            CallEnd::Replied(reply) => Some(reply.status),
            CallEnd::Acknowledged { status, .. } => *status,
            CallEnd::Unsendable(_) | CallEnd::NoReply(_) => None,
        }
    }

    /// Why there was no reply, if there was none.
    pub fn error(&self) -> Option<&CallError> {
        match &self.0 {
            CallEnd::NoReply(no_reply) => Some(&no_reply.error),
            _ => None,
        }
    }

    /// The acknowledgement of the message, if there was one.
    pub fn acknowledgement(&self) -> Option<AckCode> {
        match &self.0 {
            CallEnd::Acknowledged { ack: Ok(ack), .. } => Some(ack.code),
            _ => None,
        }
    }

    /// A code that is safe to show: `http.503`, `hl7.ae`, `connect.refused`, `timeout`, or what the endpoint's problem document
    /// names.
    pub fn code(&self) -> Code {
        self.failure().map_or(OK, |failure| failure.code)
    }

    /// The failure, unless the message was accepted: kind and code as on a route, and the endpoint's text as hidden detail.
    pub fn failure(&self) -> Option<Failure> {
        match self.meaning() {
            Meaning::Done => None,
            Meaning::NotDone(_, failure) | Meaning::NotSent(failure) => Some(failure),
            Meaning::Denied(_) => self.error().map(CallError::failure),
        }
    }

    /// Without `Retry-After`, which is relative to a time.
    fn meaning(&self) -> Meaning {
        classify(self, Timestamp::UNIX_EPOCH, Duration::ZERO)
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
