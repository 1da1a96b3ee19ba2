//! Refuses streams: acknowledging removes nothing from a stream, so everything in it would be handled again and again.
//!
//! A passive declaration does not tell the type of a queue, and `basic.get`, which only a stream refuses, would take a
//! message from any other queue. But a broker that refuses a consumer because of its priority names the type of a stream,
//! for which priorities are unknown.

use bezoar_core::{ErrorKind, QueueName, TransportError};

use crate::{
    error::{error, queue_not_found},
    transport::TransportState,
};

/// How the broker names the type of a stream.
const STREAM: &str = "rabbit_stream_queue";

impl TransportState {
    /// Refuses a stream. Needs only the permission to read; without it nothing is consumed either.
    pub(crate) async fn refuse_stream(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let refused = self.refused_consumer(queue.as_str(), operation).await?;
        match refused.is_some_and(|source| source.to_string().contains(STREAM)) {
            true => Err(is_a_stream(queue, operation)),
            false => Ok(()),
        }
    }

    /// The error for a queue that does not exist. A super stream is an exchange, so its name is not that of a queue.
    pub(crate) async fn missing_queue(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> TransportError {
        let missing = queue_not_found(queue, operation);
        match self.has_exchange(queue.as_str(), operation).await {
            Ok(true) => missing.with_source(
                "this is the name of an exchange or a super stream; bind a queue to it and consume that queue",
            ),
            _ => missing,
        }
    }
}

fn is_a_stream(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::Unusable, operation).with_source(format!(
        "{:?} is a stream, from which nothing is removed when it is handled; consume a quorum or classic queue that is \
         bound to the same exchange",
        queue.as_str()
    ))
}
