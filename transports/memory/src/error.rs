//! The only errors of this transport: requests that it must refuse.

use bezoar_core::{ErrorKind, QueueName, TransportError};

pub(crate) const TRANSPORT: &str = "memory";

pub(crate) fn error(kind: ErrorKind, operation: &'static str) -> TransportError {
    TransportError::new(kind, TRANSPORT, operation)
}

pub(crate) fn no_queue(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::QueueNotFound(queue.clone()), operation)
}
