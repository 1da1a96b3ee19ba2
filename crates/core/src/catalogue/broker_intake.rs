//! Dead letters that come from brokers, and the outcomes of those replayed to them.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{CatalogueError, OperationId, Rejection, RejectionFilter};
use crate::{DeadLetter, DeadLetterId, Message, MessageId, QueueName, Reason};

/// Takes dead letters from brokers into the store, and records the outcomes of those that are
/// replayed.
#[async_trait]
pub trait BrokerIntake: Debug + Send + Sync + 'static {
    /// Registers a queue of a broker under a name of its own. Messages replayed from it wait in the store's queue
    /// of that name until somebody sends them to the broker; [`take_in`](Self::take_in) and
    /// [`completed`](Self::completed) report their outcomes. Calling it again changes nothing.
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
    /// [`CatalogueError::TakenOver`] if a letter was recognized in another session meanwhile. Leave this one on the
    /// broker, which hands it out again.
    async fn removing(
        &self,
        queue: &QueueName,
        letters: &[DeadLetterId],
    ) -> Result<(), CatalogueError>;

    /// Records why a broker is about to dead-letter messages of an adopted queue by itself, because the broker
    /// keeps neither reason nor ledger. If such a letter is taken in within 30 days, recognized by its message id,
    /// it gets this reason and ledger. One whose id was [assigned](MessageId::assign), because its sender set none, is
    /// recognized by the content part of that id, and gets the announced id back.
    async fn announce(
        &self,
        queue: &QueueName,
        dying: Vec<(Message, Reason)>,
    ) -> Result<(), CatalogueError>;

    /// Lists rejections that were [announced](Self::announce) within the last 30 days and whose letters were not
    /// taken in, newest first, at most `limit`.
    async fn rejections(
        &self,
        filter: &RejectionFilter,
        limit: u32,
    ) -> Result<Vec<Rejection>, CatalogueError>;

    /// Records that messages which were replayed to an adopted queue completed there. Messages without a pending
    /// replay are ignored; the same message id in another queue is a different message.
    async fn completed(
        &self,
        queue: &QueueName,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Result<(), CatalogueError>;
}
