//! The audit log of a store.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{AuditEntry, AuditHead, AuditedAction, CatalogueError};

/// Who did what, in an order that nobody can change unnoticed.
#[async_trait]
pub trait AuditLog: Debug + Send + Sync + 'static {
    /// Writes an action that changes nothing in the store, before it is done.
    async fn log(&self, action: &AuditedAction) -> Result<(), CatalogueError>;

    /// Reads entries in order, after a number, and the head of the log, which is stored apart from it.
    async fn audit(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, AuditHead), CatalogueError>;
}
