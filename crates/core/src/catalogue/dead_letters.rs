//! What people do with dead letters one by one.

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    AuditedAction, CatalogueError, Cause, CauseId, CauseState, Count, DeadLetterRecord,
    DeadLetterSummary, Filter, ListRequest,
};
use crate::{DeadLetterId, Message};

/// Dead letters and their causes: found, edited, imported and expired.
#[async_trait]
pub trait DeadLetterCatalogue: Debug + Send + Sync + 'static {
    /// Lists the dead letters that match, newest first. The next page starts after the last of this one; only an
    /// empty page is the end. Those that are not grouped yet, see [`regroup`](Self::regroup), are not found by
    /// attributes of a cause.
    async fn list(
        &self,
        filter: &Filter,
        page: &ListRequest,
    ) -> Result<Vec<DeadLetterSummary>, CatalogueError>;

    /// Counts those that match: exactly, or at least that many where counting would take too long.
    async fn count(&self, filter: &Filter) -> Result<Count, CatalogueError>;

    /// Everything about a dead letter. Its body, header values and details are hidden by their types; whoever
    /// reveals them writes that to the audit log first.
    async fn record(&self, id: DeadLetterId) -> Result<DeadLetterRecord, CatalogueError>;

    /// Lists the causes of dead letters that match, the largest first. A cause that is asked for by its id is listed
    /// even if it has no dead letters left.
    async fn causes(&self, filter: &Filter, limit: u32) -> Result<Vec<Cause>, CatalogueError>;

    /// Sets the state of a cause. Without a note the old one stays; an empty one removes it. The next new dead letter
    /// turns a resolved cause into a regressed one.
    async fn mark(
        &self,
        cause: &CauseId,
        state: CauseState,
        note: Option<&str>,
        action: &AuditedAction,
    ) -> Result<Cause, CatalogueError>;

    /// Groups up to `limit` dead letters that an older version of the rule, or none, has grouped. Returns how many
    /// there were.
    async fn regroup(&self, limit: u32) -> Result<u32, CatalogueError>;

    /// Adds an edited version of a dead letter, as a dead letter of its own. The original stays and cannot be replayed
    /// unless the version is discarded. With `needs_approval` the version waits until somebody else approves it.
    async fn edit(
        &self,
        id: DeadLetterId,
        edited: Message,
        needs_approval: bool,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError>;

    /// Approves an edited version; its editor cannot.
    async fn approve(
        &self,
        id: DeadLetterId,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError>;

    /// Adds dead letters from elsewhere, such as an export, each with a stamp by which it is recognized. Returns how
    /// many were new. One that was imported before is ignored; another one under its stamp is a conflict. All are added
    /// or none. Each keeps the time of its death. Creates queues that are missing.
    async fn import(
        &self,
        records: Vec<(String, DeadLetterRecord)>,
        action: &AuditedAction,
    ) -> Result<u64, CatalogueError>;

    /// Removes up to `limit` dead letters that arrived in this store before a time, except those that an operation has.
    /// One that died long ago elsewhere is not removed as soon as it arrives: nobody could have been warned.
    /// Returns how many. Removing none writes nothing to the audit log. What only served older ones (causes without a
    /// note, stamps of imports, operations that have ended) may go with them.
    async fn expire(
        &self,
        before: Timestamp,
        limit: u32,
        action: &AuditedAction,
    ) -> Result<u32, CatalogueError>;
}
