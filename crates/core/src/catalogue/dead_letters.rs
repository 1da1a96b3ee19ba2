//! What people do with single dead letters.

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    AuditedAction, CatalogueError, Cause, CauseId, CauseState, Count, DeadLetterRecord,
    DeadLetterSummary, Filter, ListRequest,
};
use crate::{Body, DeadLetterId, Message};

/// Finds, edits, imports and expires dead letters and their causes.
#[async_trait]
pub trait DeadLetterCatalogue: Debug + Send + Sync + 'static {
    /// Lists the dead letters that match, newest first. The next page starts after the last letter of this one;
    /// only an empty page is the end. Dead letters that are not grouped yet, see [`regroup`](Self::regroup), are
    /// not found by attributes of a cause.
    async fn list(
        &self,
        filter: &Filter,
        page: &ListRequest,
    ) -> Result<Vec<DeadLetterSummary>, CatalogueError>;

    /// Counts the dead letters that match. The count is a lower bound where an exact count would
    /// take too long.
    async fn count(&self, filter: &Filter) -> Result<Count, CatalogueError>;

    /// Returns everything about a dead letter. The types of body, header values and details hide them;
    /// whoever reveals them must write an entry to the audit log first.
    async fn record(&self, id: DeadLetterId) -> Result<DeadLetterRecord, CatalogueError>;

    /// The same without the body, which is empty here: for whoever only looks. The size of the body is in the summary.
    async fn record_without_body(
        &self,
        id: DeadLetterId,
    ) -> Result<DeadLetterRecord, CatalogueError> {
        let mut record = self.record(id).await?;
        record.message.body = Body::from("");
        Ok(record)
    }

    /// Lists the causes of dead letters that match, the largest first. A cause that is requested by its id is listed
    /// even if it has no dead letters left.
    async fn causes(&self, filter: &Filter, limit: u32) -> Result<Vec<Cause>, CatalogueError>;

    /// Sets the state of a cause. Without a note the old one stays; an empty note removes it. The next new dead
    /// letter turns a resolved cause into a regressed one.
    async fn mark(
        &self,
        cause: &CauseId,
        state: CauseState,
        note: Option<&str>,
        action: &AuditedAction,
    ) -> Result<Cause, CatalogueError>;

    /// Groups up to `limit` dead letters that are not grouped yet, or were grouped by an older version of the
    /// rule. Returns how many there were.
    async fn regroup(&self, limit: u32) -> Result<u32, CatalogueError>;

    /// Adds an edited version of a dead letter, as a dead letter of its own. The original stays but cannot be replayed
    /// unless the version is discarded. With `needs_approval` the version waits until somebody else approves it.
    async fn edit(
        &self,
        id: DeadLetterId,
        edited: Message,
        needs_approval: bool,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError>;

    /// Approves an edited version. The editor cannot approve it.
    async fn approve(
        &self,
        id: DeadLetterId,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError>;

    /// Adds dead letters from elsewhere, such as an export, each with a stamp that identifies it. Returns how many were
    /// new. A letter that was imported before is ignored; a different letter with the same stamp is a conflict. Either
    /// all are added or none. Each keeps the time at which it was dead-lettered. Creates missing queues.
    async fn import(
        &self,
        records: Vec<(String, DeadLetterRecord)>,
        action: &AuditedAction,
    ) -> Result<u64, CatalogueError>;

    /// Removes up to `limit` dead letters that arrived in this store before a time, except those that an operation
    /// holds. The time of arrival decides, so that a letter that was dead-lettered elsewhere long ago is not removed as
    /// soon as it arrives, before anybody was warned. Returns how many were removed. If there are none, nothing is
    /// written to the audit log. Data that only belonged to older letters (causes without a note, stamps of imports,
    /// operations that have ended) may be removed too.
    async fn expire(
        &self,
        before: Timestamp,
        limit: u32,
        action: &AuditedAction,
    ) -> Result<u32, CatalogueError>;
}
