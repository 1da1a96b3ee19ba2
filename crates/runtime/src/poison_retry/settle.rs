//! The changes to the queue.

use std::time::Duration;

use bezoar_core::{
    ErrorKind, FailedTry, Pauses, Reason, TransportError,
    poison_retry::{PoisonEnd, PoisonMessage},
};
use jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

/// The first and the longest pause before a change is tried again.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(5));

/// A change to a message in its queue.
#[derive(Debug)]
pub(super) enum Change<'a> {
    Retry { retry_count: u32, after: Duration, failed: &'a FailedTry },
    StoreDeadLetter { reason: &'a Reason, at: Timestamp, failed: Option<&'a FailedTry> },
    Delete(PoisonEnd),
}

impl Change<'_> {
    /// Makes the change. Errors that may pass are tried again until `until`, when the message is no longer ours.
    pub(super) async fn make(
        &self,
        message: &mut dyn PoisonMessage,
        until: Instant,
    ) -> Result<(), TransportError> {
        let mut pauses = PAUSES;
        loop {
            let made = timeout_at(until, self.request(message)).await;
            let error = match made.unwrap_or_else(|_| Err(lease_lost())) {
                Err(error) if may_pass(&error) => error,
                made => return made,
            };
            let pause = error.kind.retry_after().unwrap_or_default().max(pauses.lengthen());
            if Instant::now() + pause >= until {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    async fn request(&self, message: &mut dyn PoisonMessage) -> Result<(), TransportError> {
        match self {
            Self::Retry { retry_count, after, failed } => {
                message.retry(*retry_count, *after, failed).await
            }
            Self::StoreDeadLetter { reason, at, failed } => {
                message.store_dead_letter(reason, *at, *failed).await
            }
            Self::Delete(end) => message.delete(*end).await,
        }
    }
}

/// A change whose outcome is unknown can be repeated: if it took effect, the message is no longer ours.
fn may_pass(error: &TransportError) -> bool {
    error.is_transient() || error.kind == ErrorKind::OutcomeUnknown
}

fn lease_lost() -> TransportError {
    TransportError::new(ErrorKind::LeaseLost, "poison queue", "settle")
}
