//! Replays and discards of frozen selections.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{
    Advance, AuditedAction, CatalogueError, Operation, OperationCommand, OperationId,
    OperationItem, OperationPlan,
};

/// Replays and discards: planned, commanded, and carried out piece by piece.
#[async_trait]
pub trait Operations: Debug + Send + Sync + 'static {
    /// Freezes a selection. Its dead letters take part in no other operation until this one has ended; those that
    /// cannot take part are counted as refused. If another operation holds some of them, nothing is planned unless the
    /// plan says to [leave them out](super::HeldLetters::Skip). What dies later does not join. A replay takes only
    /// what is open; a discard takes everything that is listed.
    async fn plan(
        &self,
        plan: &OperationPlan,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError>;

    /// Starts, pauses, resumes or cancels an operation. Resuming one that stopped by itself accepts its failures: the
    /// canary is over, and failures count from 0 towards the threshold.
    async fn command(
        &self,
        operation: OperationId,
        command: OperationCommand,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError>;

    /// Does the next piece of a running operation in one transaction: at most `most`, and never more than
    /// [`Operation::next`] allows. Each message is sent or discarded exactly once, whatever happens in between. An
    /// operation that is not running is left as it is, which is no error: its state tells.
    async fn advance(&self, operation: OperationId, most: u32) -> Result<Advance, CatalogueError>;

    /// Stops a running operation because of its own progress. One that is not running is left as it is.
    async fn stop(&self, operation: OperationId, reason: &str)
    -> Result<Operation, CatalogueError>;

    /// An operation, and how far it is.
    async fn operation(&self, operation: OperationId) -> Result<Operation, CatalogueError>;

    /// Lists operations, newest first.
    async fn operations(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError>;

    /// Lists running operations, oldest first.
    async fn running(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError>;

    /// Lists what became of each message of an operation, in order, after a place.
    async fn items(
        &self,
        operation: OperationId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<OperationItem>, CatalogueError>;
}
