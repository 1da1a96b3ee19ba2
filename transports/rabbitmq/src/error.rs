//! What lapin and the broker say, as the contract says it.

use std::{io, time::Duration};

use bezoar_core::{ErrorKind, QueueName, TransportError};
use lapin::{
    ErrorKind as Lapin,
    protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError},
};

pub(crate) const TRANSPORT: &str = "rabbitmq";
/// What to do about a part of the topology that is missing.
pub(crate) const PROVISION: &str = "create it with `bezoar provision`";

pub(crate) fn error(kind: ErrorKind, operation: &'static str) -> TransportError {
    TransportError::new(kind, TRANSPORT, operation)
}

pub(crate) fn queue_not_found(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::QueueNotFound(queue.clone()), operation)
}

pub(crate) fn unavailable(operation: &'static str, what: &'static str) -> TransportError {
    error(ErrorKind::Unavailable, operation).with_source(what)
}

/// How soon to ask again for a queue that does not answer.
pub(crate) const AWAY_PAUSE: Duration = Duration::from_millis(100);

/// The one place where lapin's errors get their meaning. By AMQP code: lapin's own idea of what can be
/// recovered from takes a missing queue for a passing trouble.
pub(crate) fn from_lapin(source: &lapin::Error, operation: &'static str) -> TransportError {
    let (kind, remedy) = match source.kind() {
        _ if is_queue_down(source) => (
            ErrorKind::Throttled { retry_after: Some(AWAY_PAUSE) },
            "the queue is being made just now, or its node is away",
        ),
        Lapin::ProtocolError(amqp) => match amqp.kind() {
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                (ErrorKind::NotAuthorized, "the user lacks a permission; grant it on the broker")
            }
            AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => (
                ErrorKind::Unusable,
                "it exists with other arguments, which cannot be changed; delete it, or configure what it has",
            ),
            AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => {
                (ErrorKind::Unavailable, "another connection has it for itself")
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
                (ErrorKind::NotAuthorized, "the virtual host is missing or not for this user")
            }
            AMQPErrorKind::Hard(
                AMQPHardError::CONNECTIONFORCED
                | AMQPHardError::CHANNELERROR
                | AMQPHardError::RESOURCEERROR
                | AMQPHardError::INTERNALERROR,
            ) => (ErrorKind::Unavailable, "the broker closed the connection"),
            _ => (ErrorKind::Other, "unexpected"),
        },
        Lapin::IOError(_)
        | Lapin::MissingHeartbeatError
        | Lapin::InvalidConnectionState(_)
        | Lapin::InvalidChannelState(..)
        | Lapin::InvalidChannel(_) => (ErrorKind::Unavailable, "the connection is gone"),
        Lapin::AuthProviderError(_) => (ErrorKind::NotAuthorized, "check user and password"),
        Lapin::ChannelsLimitReached => {
            (ErrorKind::Unavailable, "the connection has no channel left")
        }
        Lapin::ParsingError(_) | Lapin::InvalidProtocolVersion(_) => {
            (ErrorKind::Unusable, "this does not speak AMQP 0-9-1")
        }
        _ => (ErrorKind::Other, "unexpected"),
    };
    error(kind, operation).with_source(format!("{remedy} ({source})"))
}

/// The same while connecting, where most troubles are with the address.
pub(crate) fn while_connecting(
    source: &lapin::Error,
    address: &str,
    operation: &'static str,
) -> TransportError {
    let (kind, remedy) = match source.kind() {
        Lapin::IOError(io) => match io.kind() {
            io::ErrorKind::ConnectionRefused => (
                ErrorKind::Unavailable,
                "nothing listens there; check host and port, and whether the broker runs",
            ),
            io::ErrorKind::InvalidData => (
                ErrorKind::Unusable,
                "no encrypted connection comes about; check tls_ca, tls_certificate and the host's name, \
                 and that the port is one for amqps",
            ),
            _ => (
                ErrorKind::Unavailable,
                "the connection does not come about; check host and port, that it is a broker, and whether \
                 it wants amqps or tls_certificate",
            ),
        },
        Lapin::ProtocolError(amqp)
            if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) =>
        {
            (ErrorKind::NotAuthorized, "check user and password")
        }
        Lapin::ParsingError(_) | Lapin::InvalidProtocolVersion(_) => (
            ErrorKind::Unusable,
            "this does not speak AMQP 0-9-1; check host and port, and whether it wants amqps",
        ),
        _ => {
            let failed = from_lapin(source, operation);
            let reason = std::error::Error::source(&failed).map(ToString::to_string);
            let reason = format!("{address}: {}", reason.unwrap_or_default());
            return failed.with_source(reason);
        }
    };
    error(kind, operation).with_source(format!("{address}: {remedy} ({source})"))
}

/// Whether the broker says that there is no such queue or exchange.
pub(crate) fn is_not_found(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ProtocolError(amqp)
        if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)))
        && !is_queue_down(source)
}

/// Whether the user lacks a permission.
pub(crate) fn is_access_refused(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ProtocolError(amqp)
        if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)))
}

/// Whether the broker knows a queue that does not answer: a queue is there a moment before it works.
fn is_queue_down(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ProtocolError(amqp)
        if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
            && amqp.get_message().as_str().contains("down or inaccessible"))
}

/// Whether the broker says that somebody else consumes alone.
pub(crate) fn is_exclusively_consumed(source: &lapin::Error) -> bool {
    is_access_refused(source)
        && matches!(source.kind(), Lapin::ProtocolError(amqp)
            if amqp.get_message().as_str().contains("exclusive"))
}

/// Whether a new channel fails with what ended an earlier one: lapin numbers channels anew after 2,047, and
/// keeps the error with the number.
pub(crate) fn is_stale_channel_error(source: &lapin::Error) -> bool {
    source.is_amqp_soft_error()
}

/// Whether a connection has no channel left.
pub(crate) fn is_out_of_channels(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ChannelsLimitReached)
}

/// A trouble with one queue, which may be that it is not there.
pub(crate) fn for_queue(
    source: &lapin::Error,
    queue: &QueueName,
    operation: &'static str,
) -> TransportError {
    if is_not_found(source) {
        queue_not_found(queue, operation)
    } else {
        from_lapin(source, operation)
    }
}

/// The trouble with a message that lapin cannot read. It ends the connection, each time that it is sent.
pub(crate) fn unreadable(source: &lapin::Error) -> Option<TransportError> {
    matches!(source.kind(), Lapin::ParsingError(_)).then(|| {
        error(ErrorKind::Unusable, "receive").with_source(
            "a message of this queue, or of another that shares the connection, has a property or a header \
             name that is no UTF-8, which cannot be read here; remove it with another client",
        )
    })
}
