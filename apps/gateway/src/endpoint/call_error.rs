//! Why a call got no complete reply.

use std::{error::Error, fmt, io};

use bezoar::{Code, Detail, Failure, FailureKind};

/// Why a call got no complete reply: a kind to decide by, and the system's message.
///
/// `Display` prints fixed text only: never a URL, a header or any byte that was sent or received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The kind of error.
    pub kind: CallErrorKind,
    /// The system's message.
    pub detail: Detail,
}

/// The kinds of errors without a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallErrorKind {
    /// The address is not allowed.
    Denied,
    /// The host name could not be resolved.
    Dns,
    /// Connection refused.
    Refused,
    /// Host unreachable.
    Unreachable,
    /// The connection timed out, including TLS.
    ConnectTimeout,
    /// The connection failed for another reason.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The reply timed out.
    Timeout,
    /// The connection was closed before a reply.
    Reset,
    /// The reply is not valid HTTP.
    Malformed,
    /// The reply is too large: the head of an HTTP response, or an MLLP frame.
    TooLarge,
    /// The connection was closed within the reply's body.
    Truncated,
}

impl CallErrorKind {
    /// The code, which is safe to show.
    pub const fn code(self) -> Code {
        match self {
            Self::Denied => Code::from_static("target.denied"),
            Self::Dns => Code::from_static("dns"),
            Self::Refused => Code::from_static("connect.refused"),
            Self::Unreachable => Code::from_static("connect.unreachable"),
            Self::ConnectTimeout => Code::from_static("connect.timeout"),
            Self::Connect => Code::from_static("connect.failed"),
            Self::Tls => Code::from_static("tls"),
            Self::Timeout => Code::TIMEOUT,
            Self::Reset => Code::from_static("reply.reset"),
            Self::Malformed => Code::from_static("reply.malformed"),
            Self::TooLarge => Code::from_static("reply.too-large"),
            Self::Truncated => Code::from_static("reply.truncated"),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Denied => "the address is not allowed",
            Self::Dns => "the host name could not be resolved",
            Self::Refused => "connection refused",
            Self::Unreachable => "host unreachable",
            Self::ConnectTimeout => "connection timed out",
            Self::Connect => "connection failed",
            Self::Tls => "TLS handshake failed",
            Self::Timeout => "timed out",
            Self::Reset => "the connection was closed before a reply",
            Self::Malformed => "the reply is not valid HTTP",
            Self::TooLarge => "the reply is too large",
            Self::Truncated => "the connection was closed within the reply",
        }
    }
}

impl CallError {
    pub(super) fn new(kind: CallErrorKind, error: &(dyn Error + 'static)) -> Self {
        let texts: Vec<_> = sources(error).map(ToString::to_string).collect();
        Self { kind, detail: Detail::truncated(texts.join(": ")) }
    }

    pub(super) fn plain(kind: CallErrorKind) -> Self {
        Self { kind, detail: Detail::truncated(kind.text().to_owned()) }
    }

    /// An error while connecting.
    pub(super) fn connecting(error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::ConnectionRefused => CallErrorKind::Refused,
            io::ErrorKind::TimedOut => CallErrorKind::ConnectTimeout,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable => CallErrorKind::Unreachable,
            _ => CallErrorKind::Connect,
        };
        Self::new(kind, error)
    }

    /// An error before the head of the reply.
    pub(super) fn requesting(error: &hyper::Error) -> Self {
        let kind = match error {
            error if error.is_parse_too_large() => CallErrorKind::TooLarge,
            error if error.is_parse() => CallErrorKind::Malformed,
            _ => CallErrorKind::Reset,
        };
        Self::new(kind, error)
    }

    /// An error within the body of the reply.
    pub(super) fn reading(error: &hyper::Error) -> Self {
        let io = sources(error).find_map(|source| source.downcast_ref::<io::Error>());
        let kind = match io.map(io::Error::kind) {
            Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
                CallErrorKind::Malformed
            }
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                CallErrorKind::Reset
            }
            _ => CallErrorKind::Truncated,
        };
        Self::new(kind, error)
    }

    /// A transient failure: it says nothing about the message.
    pub(super) fn failure(&self) -> Failure {
        Failure::with_detail(FailureKind::Transient, self.detail.clone())
            .with_code(self.kind.code())
    }
}

/// An error and its sources.
fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.text())
    }
}

impl Error for CallError {}
