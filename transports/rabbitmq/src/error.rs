//! lapin's errors as errors of the contract, in one `match`.

use std::{io, time::Duration};

use bezoar_core::{ErrorKind, QueueName, TransportError};
use lapin::{
    ErrorKind as Lapin,
    protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError},
};

pub(crate) const TRANSPORT: &str = "rabbitmq";
/// The remedy for a missing part of the topology.
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

/// The pause before a queue that is down is asked for again.
pub(crate) const AWAY_PAUSE: Duration = Duration::from_millis(100);

/// Maps an error of lapin. By AMQP reply code: lapin's own classification takes a missing queue for a recoverable
/// error.
pub(crate) fn from_lapin(source: &lapin::Error, operation: &'static str) -> TransportError {
    let (kind, remedy) = match source.kind() {
        _ if is_queue_down(source) => (
            ErrorKind::Throttled { retry_after: Some(AWAY_PAUSE) },
            "the queue is being created, or its node is down",
        ),
        Lapin::ProtocolError(amqp) => match amqp.kind() {
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                (ErrorKind::NotAuthorized, "the user lacks a permission; grant it on the broker")
            }
            AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => (
                ErrorKind::Unusable,
                "it exists with other arguments, which cannot be changed; delete it, or configure the arguments that it has",
            ),
            AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => {
                (ErrorKind::Unavailable, "another connection uses it exclusively")
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => (
                ErrorKind::NotAuthorized,
                "the virtual host does not exist, or the user has no access to it",
            ),
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
        | Lapin::InvalidChannel(_) => (ErrorKind::Unavailable, "the connection is lost"),
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

/// Maps an error of connecting, where most problems are with the address.
pub(crate) fn while_connecting(
    source: &lapin::Error,
    address: &str,
    operation: &'static str,
) -> TransportError {
    let (kind, remedy) = match source.kind() {
        Lapin::IOError(io) => match io.kind() {
            io::ErrorKind::ConnectionRefused => (
                ErrorKind::Unavailable,
                "connection refused; check host and port, and that the broker is running",
            ),
            io::ErrorKind::InvalidData => (
                ErrorKind::Unusable,
                "TLS handshake failed; check tls_ca, tls_certificate and the host name, and that the port expects TLS \
                 (amqps)",
            ),
            _ => (
                ErrorKind::Unavailable,
                "connection failed; check host and port, that it is a broker, and whether it expects amqps or \
                 tls_certificate",
            ),
        },
        Lapin::ProtocolError(amqp)
            if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) =>
        {
            (ErrorKind::NotAuthorized, "check user and password")
        }
        Lapin::ParsingError(_) | Lapin::InvalidProtocolVersion(_) => (
            ErrorKind::Unusable,
            "this does not speak AMQP 0-9-1; check host and port, and whether it expects amqps",
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

/// Whether the broker says that the queue or exchange does not exist.
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

/// Whether the queue exists but does not answer: its node is down, or it is just being created.
fn is_queue_down(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ProtocolError(amqp)
        if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
            && amqp.get_message().as_str().contains("down or inaccessible"))
}

/// Whether a new channel fails with the error of an earlier one: after 2,047 channels lapin uses their numbers again,
/// and keeps the error with the number.
pub(crate) fn is_stale_channel_error(source: &lapin::Error) -> bool {
    source.is_amqp_soft_error()
}

/// Whether a new channel was closed before it was open. Lapin closes a channel that was dropped by its number, which a new
/// one may have by then.
pub(crate) fn is_closed_while_opening(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::InvalidChannelState(..))
}

/// Whether a connection has no channel left.
pub(crate) fn is_out_of_channels(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ChannelsLimitReached)
}

/// Maps an error about one queue, which may be that it does not exist.
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

/// Whether the broker has closed a channel because a message was not acknowledged within the consumer timeout.
pub(crate) fn is_consumer_timeout(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ProtocolError(amqp)
        if matches!(amqp.kind(), AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED))
            && amqp.get_message().as_str().contains("delivery acknowledgement"))
}

/// Whether lapin cannot parse a message. It closes the connection every time the message is delivered.
pub(crate) fn is_unreadable(source: &lapin::Error) -> bool {
    matches!(source.kind(), Lapin::ParsingError(_))
}

/// The error for a message that lapin cannot parse: of this queue, or maybe of another one on the same connection.
pub(crate) fn unreadable(is_own: bool, operation: &'static str) -> TransportError {
    let whose = if is_own { "this queue" } else { "this queue, or of another one of this broker" };
    error(ErrorKind::Unusable, operation).with_source(format!(
        "a message of {whose} has a property or header name that is not UTF-8 and cannot be read; remove it with \
         another client"
    ))
}
