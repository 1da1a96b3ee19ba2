//! What is in a dead-letter queue: our own letters, and those that the broker put there.

use bezoar_core::{Code, DeadLetter, ErrorKind, QueueName, Reason, Recognition, TransportError};

use crate::{
    error::error,
    topology::{UNROUTABLE, dead_letter_route::DeadLetterRoute},
    transport::TransportState,
    wire::{self, Raw, Substitutes, foreign_failure},
};

/// The code of a delayed message whose queue was deleted.
const QUEUE_MISSING: Code = Code::from_static("queue-missing");

impl TransportState {
    /// The name of the queue that holds the dead letters of `queue`.
    pub(crate) fn dead_queue_name(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<String, TransportError> {
        let route = DeadLetterRoute::of(queue, &self.options);
        let route = route.map_err(|it| error(ErrorKind::Invalid(it), operation))?;
        Ok(route.queue)
    }

    /// Whether the options name the dead-letter queue of `queue`.
    pub(crate) fn has_dead_queue_of_its_own(&self, queue: &QueueName) -> bool {
        self.options.dead_letter_names.get(queue).is_some_and(|names| names.queue.is_some())
    }

    /// The letter; one that the broker has put there gets an id for as long as it is handed out, and is recognized as
    /// `unstamped` says.
    pub(crate) fn identify(
        &self,
        queue: &QueueName,
        raw: &Raw,
        unstamped: Recognition,
    ) -> DeadLetter {
        let now = self.options.clock.now();
        let substitutes = Substitutes::new(now);
        wire::read_dead_letter(raw, queue, substitutes).unwrap_or_else(|| {
            let mut message = wire::read(raw, substitutes);
            let (mut reason, mut at) = wire::broker_reason(raw, now);
            if queue.as_str() == UNROUTABLE {
                reason = Reason::new(QUEUE_MISSING, "its queue did not exist when a retry was due");
            } else if let Some(failure) = foreign_failure::read(raw, now) {
                failure.record(&mut message);
                (reason, at) = (failure.reason, failure.at.unwrap_or(at));
            }
            let (id, queue) = (self.ids.next(now), queue.clone());
            DeadLetter { id, queue, message, reason, at, recognition: unstamped }
        })
    }
}
