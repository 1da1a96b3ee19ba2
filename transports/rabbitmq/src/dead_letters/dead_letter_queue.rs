//! What is in a dead-letter queue: our own letters, and those that the broker put there.

use bezoar_core::{DeadLetter, ErrorKind, QueueName, TransportError};

use crate::{
    error::error,
    publishing::publisher::Publication,
    topology::{self, DEAD_EXCHANGE},
    transport::TransportState,
    wire::{self, Raw},
};

impl TransportState {
    /// The name of the queue beside `queue` that holds its dead letters.
    pub(crate) fn dead_queue_name(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<String, TransportError> {
        topology::dead_queue(queue).map_err(|it| error(ErrorKind::Invalid(it), operation))
    }

    /// The letter; one that the broker has put there gets an id, and a copy that has it is to replace it.
    pub(crate) fn identify(
        &self,
        queue: &QueueName,
        raw: &Raw,
    ) -> (DeadLetter, Option<Publication>) {
        let now = self.options.clock.now();
        if let Some(letter) = wire::read_dead_letter(raw, queue, now) {
            return (letter, None);
        }
        let ((reason, at), id) = (wire::broker_reason(raw, now), self.ids.next(now));
        let message = wire::read(raw, now);
        let copy = Publication {
            exchange: DEAD_EXCHANGE.into(),
            key: queue.as_str().into(),
            properties: wire::dead_lettered(raw, &message, (id, at, &reason)),
            body: raw.body.clone(),
        };
        (DeadLetter { id, queue: queue.clone(), message, reason, at }, Some(copy))
    }
}
