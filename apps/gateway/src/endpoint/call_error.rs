//! Why there was no whole reply.

use std::{error::Error, fmt, io};

use bezoar::{Code, Detail, Failure, FailureKind};

/// Why there was no whole reply: a safe word to decide by, and what the system said about it.
///
/// Shown it is fixed words only: never a URL, a header or a byte of what was sent or received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// What sort of error.
    pub kind: CallErrorKind,
    /// What the system said.
    pub detail: Detail,
}

/// What stands between us and a whole reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallErrorKind {
    /// The address may not be dialled.
    Denied,
    /// The name has no address.
    Dns,
    /// Nobody listens there.
    Refused,
    /// No way leads there.
    Unreachable,
    /// No connection in time, TLS included.
    ConnectTimeout,
    /// Another reason for no connection.
    Connect,
    /// A connection, but no trust.
    Tls,
    /// No whole reply in time.
    Timeout,
    /// The connection ended before a reply.
    Reset,
    /// What came is not HTTP.
    Malformed,
    /// The head of the reply is too large.
    TooLarge,
    /// The connection ended within the reply's body.
    Truncated,
}

impl CallErrorKind {
    /// The safe word.
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

    const fn words(self) -> &'static str {
        match self {
            Self::Denied => "the address may not be dialled",
            Self::Dns => "the host name could not be resolved",
            Self::Refused => "nobody listens there",
            Self::Unreachable => "no way leads there",
            Self::ConnectTimeout => "no connection in time",
            Self::Connect => "no connection",
            Self::Tls => "no trusted connection",
            Self::Timeout => "no whole reply in time",
            Self::Reset => "the connection ended before a reply",
            Self::Malformed => "the reply is not HTTP",
            Self::TooLarge => "the head of the reply is too large",
            Self::Truncated => "the connection ended within the reply",
        }
    }
}

impl CallError {
    pub(super) fn new(kind: CallErrorKind, error: &(dyn Error + 'static)) -> Self {
        let texts: Vec<_> = sources(error).map(ToString::to_string).collect();
        Self { kind, detail: Detail::truncated(texts.join(": ")) }
    }

    pub(super) fn plain(kind: CallErrorKind) -> Self {
        Self { kind, detail: Detail::truncated(kind.words().to_owned()) }
    }

    /// CallError while connecting, by what the system says.
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

    /// CallError up to the head of the reply. The client wraps what our own connector said in an error of
    /// its own, so that it has to be looked for.
    pub(super) fn requesting(error: &hyper_util::client::legacy::Error) -> Self {
        if let Some(ours) = sources(error).find_map(|source| source.downcast_ref::<Self>()) {
            return ours.clone();
        }
        let hyper = sources(error).find_map(|source| source.downcast_ref::<hyper::Error>());
        let kind = match hyper {
            Some(error) if error.is_parse_too_large() => CallErrorKind::TooLarge,
            Some(error) if error.is_parse() => CallErrorKind::Malformed,
            None if error.is_connect() => CallErrorKind::Connect,
            _ => CallErrorKind::Reset,
        };
        Self::new(kind, error)
    }

    /// CallError within the body of the reply.
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

    /// It says nothing about the message, and may pass.
    pub(super) fn failure(&self) -> Failure {
        Failure::with_detail(FailureKind::Transient, self.detail.clone())
            .with_code(self.kind.code())
    }
}

/// An error and what is behind it.
fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.words())
    }
}

impl Error for CallError {}
