//! The catalogue: every dead letter in one place, grouped by cause, with what operators do about them.
//!
//! A store that has one promises that each action is written to the audit log in the same transaction as the
//! action itself, or before it where there is nothing to commit: an action that cannot be written does not happen.
//!
//! | file | what |
//! | --- | --- |
//! | `audit.rs` | who did what: entries that are chained by their hashes |
//! | `cause.rs` | why dead letters died: a fingerprint, and what is known of a group |
//! | `entry.rs` | a dead letter as a list shows it, and how to choose some |
//! | `operation.rs` | a frozen selection that is replayed or discarded, piece by piece |

mod audit;
mod cause;
mod entry;
mod error;
mod operation;

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

pub use audit::{AuditBreak, AuditEntry, AuditHash, AuditHead, AuditedAction, Verb};
pub use cause::{Cause, CauseId, CauseState, FINGERPRINT_VERSION, Fingerprint, StoreKey};
pub use entry::{
    Count, DeadLetterRecord, DeadLetterState, DeadLetterSummary, Filter, ListRequest, Selection,
};
pub use error::CatalogueError;
pub use operation::{
    Advance, ItemState, NextStep, Operation, OperationCommand, OperationId, OperationItem,
    OperationKind, OperationPlan, OperationState, ReplayIds,
};

use crate::{DeadLetter, DeadLetterId, Message, MessageId, QueueName, Reason};

/// Every dead letter in one place, and what operators do about them.
///
/// Methods that take an [`AuditedAction`] write it to the audit log in the transaction of what they do.
#[async_trait]
pub trait Catalogue: Debug + Send + Sync + 'static {
    /// Dead letters that fit, the latest first. The next page begins before the last of this one; only an empty
    /// page is the end. What is not grouped yet, see [`regroup`](Self::regroup), is not found by what a cause has.
    async fn list(
        &self,
        filter: &Filter,
        page: &ListRequest,
    ) -> Result<Vec<DeadLetterSummary>, CatalogueError>;

    /// How many fit; exact, or at least so many where counting would take too long.
    async fn count(&self, filter: &Filter) -> Result<Count, CatalogueError>;

    /// Everything about a dead letter. Its body, header values and details are hidden by their types; whoever
    /// reveals them has written that to the audit log before.
    async fn record(&self, id: DeadLetterId) -> Result<DeadLetterRecord, CatalogueError>;

    /// Causes of dead letters that fit, the largest first. One that is asked for by its id is there even if it has
    /// none any more.
    async fn causes(&self, filter: &Filter, limit: u32) -> Result<Vec<Cause>, CatalogueError>;

    /// Says what people think of a cause. Without a note the one that is there stays; an empty one removes it. A new dead letter turns a resolved one into
    /// a regressed one.
    async fn mark(
        &self,
        cause: &CauseId,
        state: CauseState,
        note: Option<&str>,
        action: &AuditedAction,
    ) -> Result<Cause, CatalogueError>;

    /// Groups up to `limit` dead letters that were grouped by an older version or not at all; how many there were.
    async fn regroup(&self, limit: u32) -> Result<u32, CatalogueError>;

    /// Freezes a selection. Those in it take part in no other operation until it has ended; those that
    /// cannot take part are counted as refused. What dies later does not join.
    async fn plan(
        &self,
        plan: &OperationPlan,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError>;

    /// Starts, pauses, resumes or cancels an operation. Who resumes one that stopped by itself has seen why: its
    /// canary is over then, and failures count anew towards its threshold.
    async fn command(
        &self,
        operation: OperationId,
        command: OperationCommand,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError>;

    /// Does the next of a running operation, at most so many and never more than [`Operation::next`] allows, in
    /// one transaction: each is done exactly once, whatever happens in between. Of one that does not run nothing is
    /// done, which is no error: its state tells.
    async fn advance(&self, operation: OperationId, most: u32) -> Result<Advance, CatalogueError>;

    /// Stops a running operation for a reason that its own progress gave. One that does not run is left as it is.
    async fn stop(&self, operation: OperationId, reason: &str)
    -> Result<Operation, CatalogueError>;

    /// An operation, and how far it is.
    async fn operation(&self, operation: OperationId) -> Result<Operation, CatalogueError>;

    /// Operations, the latest first.
    async fn operations(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError>;

    /// Operations that run, the oldest first.
    async fn running(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError>;

    /// What became of each message of an operation, in order, after a place.
    async fn items(
        &self,
        operation: OperationId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<OperationItem>, CatalogueError>;

    /// Adds an edited version of a dead letter, as a dead letter of its own. The original stays and takes part
    /// in no operation any more, unless the version is discarded. With `needs_approval` the version waits until somebody else approves.
    async fn edit(
        &self,
        id: DeadLetterId,
        edited: Message,
        needs_approval: bool,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError>;

    /// Approves an edited version; whoever made it cannot.
    async fn approve(
        &self,
        id: DeadLetterId,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError>;

    /// Adds dead letters from elsewhere, such as an export; how many were new. One that was imported before, as
    /// its stamp tells, is passed over. They are set aside here and now, and a queue that is missing is made.
    async fn import(
        &self,
        records: Vec<(String, DeadLetterRecord)>,
        action: &AuditedAction,
    ) -> Result<u64, CatalogueError>;

    /// Makes a queue of a broker known here, under a name of its own. Its dead letters are taken in by
    /// [`take_in`](Self::take_in); what is replayed waits in a queue of that name for whoever gives it back to the
    /// broker, and its outcome is what [`take_in`](Self::take_in) or [`completed`](Self::completed) say.
    async fn adopt(&self, queue: &QueueName) -> Result<(), CatalogueError>;

    /// Adds dead letters of an adopted queue; how many were new. One that was taken in within the last 30 days, as
    /// its id tells, is passed over. One that a replay of this catalogue had sent has failed again.
    async fn take_in(
        &self,
        queue: &QueueName,
        letters: Vec<DeadLetter>,
    ) -> Result<u64, CatalogueError>;

    /// Says why a broker is about to set messages of an adopted queue aside by itself, which carries neither reason
    /// nor ledger. When such a letter is taken in within 30 days, known by its message's id, it has these.
    async fn announce(
        &self,
        queue: &QueueName,
        dying: Vec<(Message, Reason)>,
    ) -> Result<(), CatalogueError>;

    /// Says that messages which were replayed to a broker are done there. What is not waited for is passed over.
    async fn completed(
        &self,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Result<(), CatalogueError>;

    /// Removes up to `limit` dead letters that were set aside before a time and that no operation has; how many
    /// there were. What only served older ones (causes that nobody has spoken of, stamps of imports, operations that
    /// have ended) may go with them. A call that removes none is no action.
    async fn expire(
        &self,
        before: Timestamp,
        limit: u32,
        action: &AuditedAction,
    ) -> Result<u32, CatalogueError>;

    /// Writes an action to the audit log that changes nothing here, before it is done.
    async fn log(&self, action: &AuditedAction) -> Result<(), CatalogueError>;

    /// The audit log in order, after a number, and its head as it is kept apart.
    async fn audit(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, AuditHead), CatalogueError>;

    /// Something small that outlives a restart, such as which routes are paused.
    async fn setting(&self, name: &str) -> Result<Option<String>, CatalogueError>;

    /// Keeps something small; `None` forgets it.
    async fn set(
        &self,
        name: &str,
        value: Option<&str>,
        action: &AuditedAction,
    ) -> Result<(), CatalogueError>;
}
