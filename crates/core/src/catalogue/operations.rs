//! Replays and discards of frozen selections.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{
    Advance, AuditedAction, CatalogueError, Operation, OperationCommand, OperationId,
    OperationItem, OperationPlan, OperationRequest,
};

/// Plans, controls and carries out replays and discards.
#[async_trait]
pub trait Operations: Debug + Send + Sync + 'static {
    /// Freezes a selection. Its dead letters cannot be part of another operation until this one has ended; those that
    /// cannot be selected are counted as refused. If another operation holds some of them, nothing is planned unless
    /// the plan says to [leave them out](super::HeldLetters::Skip). Messages that are dead-lettered later are not
    /// added. A replay selects only open dead letters; a discard selects everything that is listed.
    ///
    /// A plan with a [request](OperationPlan::request) is stored together with it. If the actor's key is known by
    /// then, nothing is planned, and the error is the one of [`requested`](Self::requested) or
    /// [`Repeated`](CatalogueError::Repeated).
    async fn plan(
        &self,
        plan: &OperationPlan,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError>;

    /// Returns the operation that was planned for a request of an actor; `None` if the key is unknown.
    ///
    /// # Errors
    ///
    /// [`KeyReused`](CatalogueError::KeyReused) if the key belongs to a different request, and
    /// [`InProgress`](CatalogueError::InProgress) while the operation is still being planned.
    async fn requested(
        &self,
        actor: &str,
        request: &OperationRequest,
    ) -> Result<Option<Operation>, CatalogueError>;

    /// Starts, pauses, resumes or cancels an operation. Resuming one that stopped by itself accepts its failures: the
    /// canary is over, and failures count from 0 towards the threshold.
    async fn command(
        &self,
        operation: OperationId,
        command: OperationCommand,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError>;

    /// Carries out the next step of a running operation in one transaction: at most `most` dead letters, and never
    /// more than [`Operation::next`] allows. Each message is sent or discarded exactly once, even after a crash.
    /// If the operation is not running, nothing changes and the result is `Ok`; its state says why.
    async fn advance(&self, operation: OperationId, most: u32) -> Result<Advance, CatalogueError>;

    /// Stops a running operation because of its own progress. An operation that is not running does not
    /// change.
    async fn stop(&self, operation: OperationId, reason: &str)
    -> Result<Operation, CatalogueError>;

    /// Returns an operation and its progress.
    async fn operation(&self, operation: OperationId) -> Result<Operation, CatalogueError>;

    /// Lists operations, newest first.
    async fn operations(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError>;

    /// Lists running operations, oldest first.
    async fn running(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError>;

    /// Lists the outcome of each message of an operation, in order, after a place.
    async fn items(
        &self,
        operation: OperationId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<OperationItem>, CatalogueError>;
}
