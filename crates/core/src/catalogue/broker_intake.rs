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

    /// Adds dead letters of an adopted queue and returns how many were new. A letter that was taken in within the last
    /// 30 days is ignored. It is recognized by its id and content or, if it has no lasting id, as described at
    /// [`removing`](Self::removing). A letter whose message a replay of this catalogue had sent counts as failed again.
    /// Each letter keeps the time at which it was dead-lettered; a time in the future counts as now. A store at its
    /// size limit takes nothing in and returns [`Full`](crate::ErrorKind::Full), so that the letters stay on the
    /// broker.
    async fn take_in(
        &self,
        queue: &QueueName,
        letters: Vec<DeadLetter>,
    ) -> Result<u64, CatalogueError>;

    /// Records that letters that were taken in are about to be removed from their broker. Required for letters that
    /// are [recognized by their content](crate::Recognition::Content), before they are removed.
    ///
    /// Before this call the broker certainly has them. So each equal letter that is redelivered in another session
    /// is one of them and is ignored; any equal letter beyond their number is a different one. After this call the
    /// broker may or may not have them: an equal letter that is redelivered is kept and marked as a [possible
    /// copy](super::DeadLetterSummary::possible_copy_of).
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
    /// it gets this reason and ledger.
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
