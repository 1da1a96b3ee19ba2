//! The audit log of a store.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{AuditEntry, AuditHead, AuditedAction, CatalogueError};

/// Records who did what. Nobody can change, remove or reorder entries unnoticed.
#[async_trait]
pub trait AuditLog: Debug + Send + Sync + 'static {
    /// Writes an entry for an action that changes nothing in the store. To be called before the
    /// action.
    async fn log(&self, action: &AuditedAction) -> Result<(), CatalogueError>;

    /// Reads the entries after a number, in order, and the head of the log, which is stored
    /// separately.
    async fn audit(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, AuditHead), CatalogueError>;
}
