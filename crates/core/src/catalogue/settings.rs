//! Small settings of a store.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{AuditedAction, CatalogueError};

/// Small values that survive a restart, such as which routes are paused.
#[async_trait]
pub trait Settings: Debug + Send + Sync + 'static {
    /// The value of a setting, if it is set.
    async fn setting(&self, name: &str) -> Result<Option<String>, CatalogueError>;

    /// Makes a small write and waits until it is durable; fails if messages could not be stored either. It leaves no
    /// entry in the audit log.
    async fn check_writable(&self) -> Result<(), CatalogueError>;

    /// Sets a value; `None` removes it.
    async fn set(
        &self,
        name: &str,
        value: Option<&str>,
        action: &AuditedAction,
    ) -> Result<(), CatalogueError>;
}
