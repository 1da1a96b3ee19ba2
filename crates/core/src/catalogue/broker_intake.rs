//! Dead letters of brokers, and what becomes of those that are replayed to them.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{CatalogueError, OperationId, Rejection, RejectionFilter};
use crate::{DeadLetter, DeadLetterId, Message, MessageId, QueueName, Reason};

/// Takes dead letters of brokers into the store, and learns the outcomes of those that go back.
#[async_trait]
pub trait BrokerIntake: Debug + Send + Sync + 'static {
    /// Makes a queue of a broker known here, under a name of its own. What is replayed from it waits in the store's
    /// queue of that name until somebody sends it to the broker; its outcome is what [`take_in`](Self::take_in) or
    /// [`completed`](Self::completed) say. Doing it again changes nothing.
    async fn adopt(&self, queue: &QueueName) -> Result<(), CatalogueError>;

    /// Adds dead letters of an adopted queue; returns how many were new. One that was taken in within the last 30
    /// days is recognized and ignored: by its id and content, or, where it has no lasting id, as described at
    /// [`removing`](Self::removing). One that a replay of this catalogue had sent has failed again. Each keeps the time
    /// of its death; one in the future counts as now. A store that has reached its size limit takes nothing in and says
    /// [`Full`](crate::ErrorKind::Full), so that the letters stay on the broker.
    async fn take_in(
        &self,
        queue: &QueueName,
        letters: Vec<DeadLetter>,
    ) -> Result<u64, CatalogueError>;

    /// Says that letters which were taken in are about to be removed from their broker. Call it before removing them.
    ///
    /// It matters for letters that are [recognized by their content](crate::Recognition::Content). Until then the
    /// broker should have them. So each one that is redelivered in another session, and is equal to one whose dead
    /// letter is still here, is that one, and is ignored; one equal letter more is another letter. In doubt an equal
    /// letter is kept and marked as a [possible copy](super::DeadLetterSummary::possible_copy_of): after this call, if
    /// the dead letter is gone, or if it is redelivered in the same session.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::TakenOver`] if a letter was recognized in another session meanwhile, so that this one is not
    /// accounted for: leave it on the broker, to be handed out again.
    async fn removing(
        &self,
        queue: &QueueName,
        letters: &[DeadLetterId],
    ) -> Result<(), CatalogueError>;

    /// Says why a broker is about to dead-letter messages of an adopted queue by itself, which keeps neither reason
    /// nor ledger. When such a letter is taken in within 30 days, recognized by its message id, it gets these.
    async fn announce(
        &self,
        queue: &QueueName,
        dying: Vec<(Message, Reason)>,
    ) -> Result<(), CatalogueError>;

    /// What was [announced](Self::announce) within the last 30 days and not taken in, newest first, at most `limit`.
    async fn rejections(
        &self,
        filter: &RejectionFilter,
        limit: u32,
    ) -> Result<Vec<Rejection>, CatalogueError>;

    /// Says that messages which were replayed to an adopted queue completed there. Those that nobody waits for are
    /// ignored; the same message id in another queue is another message.
    async fn completed(
        &self,
        queue: &QueueName,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Result<(), CatalogueError>;
}
