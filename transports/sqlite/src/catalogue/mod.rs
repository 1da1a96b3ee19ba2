//! The catalogue of dead letters, in the same database as the queues: the outcome of a message, the counters and the
//! audit log are written in one transaction.
//!
//! | where | what |
//! | --- | --- |
//! | `dead_letters/` | how they arrive, how filters find them, versions, imports, expiry |
//! | `causes/` | groups of dead letters: `cause_grouping.rs` groups and counts |
//! | `operations/` | replays and discards: plans and steps, with outcomes in `replay_counts.rs` |
//! | `intake/` | dead letters from brokers, and the reasons that brokers do not store |
//! | `audit.rs`, `settings.rs` | who did what; small settings |

mod audit;
mod causes;
mod dead_letters;
mod intake;
mod operations;
mod settings;

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterId, ErrorKind, Message, MessageId, QueueName, Reason,
    catalogue::{
        Advance, AuditEntry, AuditHead, AuditLog, AuditedAction, BrokerIntake, CHUNK_LIMIT,
        CatalogueError, Cause, CauseId, CauseState, Count, DeadLetterCatalogue, DeadLetterRecord,
        DeadLetterSummary, Filter, ListRequest, Operation, OperationCommand, OperationId,
        OperationItem, OperationPlan, OperationRequest, Operations, PAGE_LIMIT, Rejection,
        RejectionFilter, Settings, check_import, check_text,
    },
};
use jiff::Timestamp;
use rusqlite::Connection;

pub(crate) use causes::cause_grouping::CauseCounts;
pub(crate) use dead_letters::{
    arrival::{Arrival, Dying},
    edit::reopen_original,
};
pub(crate) use operations::{
    FREE,
    replay_counts::{ReplayCounts, replay_of},
};

use self::{
    causes::cause_grouping,
    dead_letters::{edit, expire, import, list, record},
    intake::announced,
    operations::{advance, requests},
};
use crate::{SqliteTransport, error::error, session::Session, transport::no_room};

/// A result, or why the action was refused. An error of SQLite rolls back the transaction.
pub(crate) type Found<T> = rusqlite::Result<Result<T, CatalogueError>>;

impl SqliteTransport {
    /// Runs `work` in a transaction. If it returns an error, its changes are undone.
    async fn transact<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Session, &Connection) -> Found<T> + Send + 'static,
    ) -> Result<T, CatalogueError> {
        self.writer
            .run(operation, move |session, connection| session.undoing(connection, &mut work))
            .await?
    }

    fn check_message(&self, message: &Message) -> Result<(), CatalogueError> {
        let (actual_bytes, limit_bytes) = (message.body.len(), self.options.max_message_bytes);
        if actual_bytes > limit_bytes {
            let id = message.id.clone();
            return Err(error(ErrorKind::TooLarge { id, actual_bytes, limit_bytes }, "edit").into());
        }
        Ok(message.check_headers()?)
    }
}

#[async_trait]
impl DeadLetterCatalogue for SqliteTransport {
    async fn list(
        &self,
        filter: &Filter,
        page: &ListRequest,
    ) -> Result<Vec<DeadLetterSummary>, CatalogueError> {
        let (filter, page) = (filter.clone(), *page);
        Ok(self.read("list", move |it| list::list(it, &filter, &page)).await?)
    }

    async fn count(&self, filter: &Filter) -> Result<Count, CatalogueError> {
        let filter = filter.clone();
        Ok(self.read("count", move |it| list::count(it, &filter)).await?)
    }

    async fn record(&self, id: DeadLetterId) -> Result<DeadLetterRecord, CatalogueError> {
        self.read("record", move |it| record::record(it, id, record::BODY)).await?
    }

    async fn record_without_body(
        &self,
        id: DeadLetterId,
    ) -> Result<DeadLetterRecord, CatalogueError> {
        self.read("record", move |it| record::record(it, id, record::NO_BODY)).await?
    }

    async fn causes(&self, filter: &Filter, limit: u32) -> Result<Vec<Cause>, CatalogueError> {
        let (filter, now) = (filter.clone(), self.options.clock.now().as_millisecond());
        Ok(self.read("causes", move |it| causes::causes(it, &filter, limit, now)).await?)
    }

    async fn mark(
        &self,
        cause: &CauseId,
        state: CauseState,
        note: Option<&str>,
        action: &AuditedAction,
    ) -> Result<Cause, CatalogueError> {
        action.check()?;
        check_text("note", note.unwrap_or_default())?;
        let (cause, note, action) = (cause.clone(), note.map(str::to_owned), action.clone());
        self.transact("mark", move |session, it| {
            causes::mark(session, it, (&cause, state, note.as_deref()), &action)
        })
        .await
    }

    async fn regroup(&self, limit: u32) -> Result<u32, CatalogueError> {
        let limit = limit.min(CHUNK_LIMIT);
        self.transact("regroup", move |session, it| {
            cause_grouping::regroup(session, it, limit).map(Ok)
        })
        .await
    }

    async fn edit(
        &self,
        id: DeadLetterId,
        edited: Message,
        needs_approval: bool,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError> {
        action.check()?;
        self.check_message(&edited)?;
        let (edit, action) = (edit::Edit { id, message: edited, needs_approval }, action.clone());
        self.transact("edit", move |session, it| edit::edit(session, it, &edit, &action)).await
    }

    async fn approve(
        &self,
        id: DeadLetterId,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError> {
        action.check()?;
        let action = action.clone();
        self.transact("approve", move |session, it| edit::approve(session, it, id, &action)).await
    }

    async fn import(
        &self,
        records: Vec<(String, DeadLetterRecord)>,
        action: &AuditedAction,
    ) -> Result<u64, CatalogueError> {
        action.check()?;
        check_import(&records)?;
        records.iter().try_for_each(|(_, record)| self.check_message(&record.message))?;
        let (action, max_bytes) = (action.clone(), self.options.max_bytes);
        let bytes = records.iter().map(|(_, record)| record.message.body.len()).sum();
        self.transact("import", move |session, it| match intake::has_room(it, max_bytes, bytes)? {
            Ok(()) => import::import(session, it, &records, &action),
            Err(full) => Ok(Err(full)),
        })
        .await
    }

    async fn expire(
        &self,
        before: Timestamp,
        limit: u32,
        action: &AuditedAction,
    ) -> Result<u32, CatalogueError> {
        action.check()?;
        let (span, action) = ((before.as_millisecond(), limit.min(CHUNK_LIMIT)), action.clone());
        self.transact("expire", move |session, it| {
            expire::expire(session, it, span, &action).map(Ok)
        })
        .await
    }
}

#[async_trait]
impl Operations for SqliteTransport {
    async fn plan(
        &self,
        plan: &OperationPlan,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError> {
        action.check()?;
        self.freeze(plan, action).await
    }

    async fn requested(
        &self,
        actor: &str,
        request: &OperationRequest,
    ) -> Result<Option<Operation>, CatalogueError> {
        let (actor, request) = (actor.to_owned(), request.clone());
        let now = self.options.clock.now().as_millisecond();
        self.read("requested", move |it| requests::operation(it, (&actor, &request), now)).await?
    }

    async fn command(
        &self,
        operation: OperationId,
        command: OperationCommand,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError> {
        action.check()?;
        let action = action.clone();
        self.transact("command", move |session, it| {
            operations::command(session, it, (operation, command), &action)
        })
        .await
    }

    async fn advance(&self, operation: OperationId, most: u32) -> Result<Advance, CatalogueError> {
        self.transact("advance", move |session, it| advance::advance(session, it, operation, most))
            .await
    }

    async fn stop(
        &self,
        operation: OperationId,
        reason: &str,
    ) -> Result<Operation, CatalogueError> {
        check_text("reason", reason)?;
        let reason = reason.to_owned();
        self.transact("stop", move |_, it| operations::stop(it, operation, &reason)).await
    }

    async fn operation(&self, operation: OperationId) -> Result<Operation, CatalogueError> {
        self.read("operation", move |it| operations::operation(it, operation)).await?
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError> {
        Ok(self.read("operations", move |it| operations::operations(it, limit)).await?)
    }

    async fn running(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError> {
        Ok(self.read("running", move |it| operations::running(it, limit)).await?)
    }

    async fn items(
        &self,
        operation: OperationId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<OperationItem>, CatalogueError> {
        self.read("items", move |it| operations::items(it, operation, after, limit)).await?
    }
}

#[async_trait]
impl BrokerIntake for SqliteTransport {
    async fn adopt(&self, queue: &QueueName) -> Result<(), CatalogueError> {
        let queue = queue.clone();
        self.transact("adopt", move |session, it| {
            intake::adopt(session, it, &queue).map(|_| Ok(()))
        })
        .await
    }

    async fn take_in(
        &self,
        queue: &QueueName,
        letters: Vec<DeadLetter>,
    ) -> Result<u64, CatalogueError> {
        let (queue, max_bytes) = (queue.clone(), self.options.max_bytes);
        self.transact("take in", move |session, it| {
            intake::take_in(session, it, &queue, &letters, max_bytes)
        })
        .await
    }

    async fn removing(
        &self,
        queue: &QueueName,
        letters: &[DeadLetterId],
    ) -> Result<(), CatalogueError> {
        let (queue, letters) = (queue.clone(), letters.to_vec());
        self.transact("removing", move |session, it| {
            intake::recognition::removing(session, it, &queue, &letters)
        })
        .await
    }

    async fn announce(
        &self,
        queue: &QueueName,
        dying: Vec<(Message, Reason)>,
    ) -> Result<(), CatalogueError> {
        let (queue, max_bytes) = (queue.clone(), self.options.max_bytes);
        self.transact("announce", move |session, it| {
            announced::announce(session, it, &queue, &dying, max_bytes)
        })
        .await
    }

    async fn rejections(
        &self,
        filter: &RejectionFilter,
        limit: u32,
    ) -> Result<Vec<Rejection>, CatalogueError> {
        let (filter, limit) = (filter.clone(), limit.clamp(1, PAGE_LIMIT));
        let since = intake::remembered_since(self.options.clock.now());
        Ok(self.read("rejections", move |it| announced::list(it, &filter, since, limit)).await?)
    }

    async fn completed(
        &self,
        queue: &QueueName,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Result<(), CatalogueError> {
        let queue = queue.clone();
        self.transact("completed", move |session, it| {
            intake::completed(session, it, &queue, &messages).map(Ok)
        })
        .await
    }
}

#[async_trait]
impl AuditLog for SqliteTransport {
    async fn log(&self, action: &AuditedAction) -> Result<(), CatalogueError> {
        action.check()?;
        let action = action.clone();
        self.transact("log", move |session, it| audit::append(session, it, &action).map(Ok)).await
    }

    async fn audit(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, AuditHead), CatalogueError> {
        Ok(self.read("audit", move |it| audit::read(it, after, limit)).await?)
    }
}

#[async_trait]
impl Settings for SqliteTransport {
    async fn setting(&self, name: &str) -> Result<Option<String>, CatalogueError> {
        let name = name.to_owned();
        Ok(self.read("setting", move |it| settings::setting(it, &name)).await?)
    }

    async fn check_writable(&self) -> Result<(), CatalogueError> {
        let options = self.options.clone();
        self.transact("check_writable", move |session, it| {
            if let Some(why) = no_room(session, it, &options, 0)? {
                let full = error(ErrorKind::Full, "check_writable").with_source(why);
                return Ok(Err(full.into()));
            }
            settings::touch(it).map(Ok)
        })
        .await
    }

    async fn set(
        &self,
        name: &str,
        value: Option<&str>,
        action: &AuditedAction,
    ) -> Result<(), CatalogueError> {
        action.check()?;
        check_text("name", name)?;
        check_text("value", value.unwrap_or_default())?;
        let (name, value, action) = (name.to_owned(), value.map(str::to_owned), action.clone());
        self.transact("set", move |session, it| {
            settings::set(session, it, (&name, value.as_deref()), &action).map(Ok)
        })
        .await
    }
}
