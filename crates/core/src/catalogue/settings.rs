//! Small settings of a store.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{AuditedAction, CatalogueError};

/// Small values that survive a restart, such as which routes are paused.
#[async_trait]
pub trait Settings: Debug + Send + Sync + 'static {
    /// The value of a setting, if it is set.
    async fn setting(&self, name: &str) -> Result<Option<String>, CatalogueError>;

    /// Sets a value; `None` removes it.
    async fn set(
        &self,
        name: &str,
        value: Option<&str>,
        action: &AuditedAction,
    ) -> Result<(), CatalogueError>;
}
