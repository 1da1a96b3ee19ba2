//! The catalogue of dead letters, in the same database as the queues: the outcome of a message, the counters and the
//! audit log are written in one transaction. Several gateways share it.
//!
//! | where | what |
//! | --- | --- |
//! | `dead_letters/` | how they arrive, how filters find them, versions, imports, expiry |
//! | `causes/` | groups of dead letters: `cause_changes.rs` counts them without hot rows |
//! | `operations/` | replays and discards: plans and steps, with outcomes in `outcomes.rs` |
//! | `intake/` | dead letters from brokers, and the reasons that brokers do not store |
//! | `audit.rs`, `settings.rs` | who did what; small settings |
//! | `session.rs` | a transaction |
//!
//! Who checks a row and then changes it locks the row in a statement of its own first. A statement that waits for a lock
//! sees the row as it is afterwards, but everything else as it was when the statement began.

mod audit;
pub(crate) mod causes;
mod dead_letters;
mod intake;
pub(crate) mod operations;
pub(crate) mod session;
mod settings;

use std::{collections::BTreeSet, pin::Pin, sync::Arc};

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

use self::{
    causes::{Mark, regroup},
    dead_letters::{edit, expire, import, list, record},
    intake::{announced, recognition},
    operations::{advance, requests},
    session::Session,
};
use crate::{PostgresTransport, database::Scope, error::error, leader::Fence, row::without_nul};

/// A result, or why the action was refused. An error of PostgreSQL or a refusal rolls back the transaction.
pub(crate) type Found<T> = sqlx::Result<Result<T, CatalogueError>>;

/// What is done in a transaction with some input. It may be done several times, if other transactions get in the way.
pub(crate) type Work<I, T> = for<'a, 'c> fn(
    &'a mut Session<'c>,
    &'a I,
) -> Pin<Box<dyn Future<Output = Found<T>> + Send + 'a>>;

impl PostgresTransport {
    /// Runs `work` in a transaction, to its end, also if the returned future is dropped. If it is refused, its changes
    /// are undone.
    pub(crate) async fn transact<I, T>(
        &self,
        operation: &'static str,
        input: I,
        work: Work<I, T>,
    ) -> Result<T, CatalogueError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (done, woken) = self.in_session(operation, Scope::Transaction, input, work).await?;
        woken.into_iter().for_each(|queue| self.wakes.wake(queue));
        self.database.add_up_changes().await;
        done
    }

    /// Runs `work`, which only reads. All its statements see the same data.
    pub(crate) async fn look<I, T>(
        &self,
        operation: &'static str,
        input: I,
        work: Work<I, T>,
    ) -> Result<T, CatalogueError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.in_session(operation, Scope::Snapshot, input, work).await?.0
    }

    async fn in_session<I, T>(
        &self,
        operation: &'static str,
        scope: Scope,
        input: I,
        work: Work<I, T>,
    ) -> Result<(Result<T, CatalogueError>, BTreeSet<i32>), CatalogueError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (database, key) = (self.database.clone(), self.database.store_key().await?.clone());
        let (input, fence) = (Arc::new(input), self.fence.clone().filter(|_| scope.writes()));
        let term = fence.as_ref().map(Fence::term).transpose()?;
        let task = tokio::spawn(async move {
            let keeps = |(done, _): &(Result<T, CatalogueError>, BTreeSet<i32>)| done.is_ok();
            database
                .run_keeping(operation, scope, keeps, &move |database, connection| {
                    let (input, key, term) = (input.clone(), key.clone(), term.clone());
                    Box::pin(async move {
                        let mut session = Session::begin(database, connection, key).await?;
                        if let Some(term) = &term
                            && !term.hold(&mut session).await?
                        {
                            return Ok((Err(CatalogueError::NotLeading), BTreeSet::new()));
                        }
                        match work(&mut session, &input).await? {
                            Ok(done) => Ok((Ok(done), session.end().await?)),
                            refused => Ok((refused, BTreeSet::new())),
                        }
                    })
                })
                .await
        });
        let ended = |_| error(ErrorKind::OutcomeUnknown, operation).with_source("the task ended");
        let done = task.await.map_err(ended)??;
        if let (Some(fence), (Ok(_), _)) = (&fence, &done) {
            fence.held(); // the act has renewed the lease
        }
        Ok(done)
    }

    fn check_message(&self, message: &Message) -> Result<(), CatalogueError> {
        let options = &self.database.options;
        let (actual_bytes, limit_bytes) = (message.body.len(), options.max_message_bytes);
        if actual_bytes > limit_bytes {
            let id = message.id.clone();
            return Err(error(ErrorKind::TooLarge { id, actual_bytes, limit_bytes }, "edit").into());
        }
        Ok(message.check_headers()?)
    }
}

/// An action that can be logged. PostgreSQL's texts have no NUL, and an entry must be hashed as it is stored.
fn checked(action: &AuditedAction) -> Result<AuditedAction, CatalogueError> {
    action.check()?;
    let text = |text: &String| without_nul(text.clone());
    Ok(AuditedAction {
        actor: text(&action.actor),
        address: text(&action.address),
        verb: action.verb,
        target: text(&action.target),
        reason: text(&action.reason),
    })
}

#[async_trait]
impl DeadLetterCatalogue for PostgresTransport {
    async fn list(
        &self,
        filter: &Filter,
        page: &ListRequest,
    ) -> Result<Vec<DeadLetterSummary>, CatalogueError> {
        self.look("list", (filter.clone(), *page), |session, (filter, page)| {
            Box::pin(async { list::list(session, filter, page).await.map(Ok) })
        })
        .await
    }

    async fn count(&self, filter: &Filter) -> Result<Count, CatalogueError> {
        self.look("count", filter.clone(), |session, filter| {
            Box::pin(async { list::count(session, filter).await.map(Ok) })
        })
        .await
    }

    async fn record(&self, id: DeadLetterId) -> Result<DeadLetterRecord, CatalogueError> {
        self.look("record", id, |session, id| Box::pin(record::record(session, *id, record::BODY)))
            .await
    }

    async fn record_without_body(
        &self,
        id: DeadLetterId,
    ) -> Result<DeadLetterRecord, CatalogueError> {
        self.look("record", id, |session, id| {
            Box::pin(record::record(session, *id, record::NO_BODY))
        })
        .await
    }

    async fn causes(&self, filter: &Filter, limit: u32) -> Result<Vec<Cause>, CatalogueError> {
        self.look("causes", (filter.clone(), limit), |session, (filter, limit)| {
            Box::pin(async { causes::causes(session, filter, *limit).await.map(Ok) })
        })
        .await
    }

    async fn mark(
        &self,
        cause: &CauseId,
        state: CauseState,
        note: Option<&str>,
        action: &AuditedAction,
    ) -> Result<Cause, CatalogueError> {
        let action = checked(action)?;
        check_text("note", note.unwrap_or_default())?;
        let mark = Mark { cause: cause.clone(), state, note: note.map(str::to_owned) };
        self.transact("mark", (mark, action), |session, (mark, action)| {
            Box::pin(causes::mark(session, mark, action))
        })
        .await
    }

    async fn regroup(&self, limit: u32) -> Result<u32, CatalogueError> {
        self.transact("regroup", limit.min(CHUNK_LIMIT), |session, limit| {
            Box::pin(async { regroup::regroup(session, *limit).await.map(Ok) })
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
        let action = checked(action)?;
        self.check_message(&edited)?;
        let edit = edit::Edit { id, message: edited, needs_approval };
        self.transact("edit", (edit, action), |session, (edit, action)| {
            Box::pin(edit::edit(session, edit, action))
        })
        .await
    }

    async fn approve(
        &self,
        id: DeadLetterId,
        action: &AuditedAction,
    ) -> Result<DeadLetterSummary, CatalogueError> {
        let action = checked(action)?;
        self.transact("approve", (id, action), |session, (id, action)| {
            Box::pin(edit::approve(session, *id, action))
        })
        .await
    }

    async fn import(
        &self,
        records: Vec<(String, DeadLetterRecord)>,
        action: &AuditedAction,
    ) -> Result<u64, CatalogueError> {
        let action = checked(action)?;
        check_import(&records)?;
        records.iter().try_for_each(|(_, record)| self.check_message(&record.message))?;
        self.transact("import", (records, action), |session, (records, action)| {
            Box::pin(async {
                let bytes = records.iter().map(|(_, it)| it.message.body.len() as u64).sum();
                match intake::has_room(session, bytes).await? {
                    Ok(()) => import::import(session, records, action).await,
                    Err(full) => Ok(Err(full)),
                }
            })
        })
        .await
    }

    async fn expire(
        &self,
        before: Timestamp,
        limit: u32,
        action: &AuditedAction,
    ) -> Result<u32, CatalogueError> {
        let action = checked(action)?;
        let span = (before.as_millisecond(), limit.min(CHUNK_LIMIT));
        self.transact("expire", (span, action), |session, (span, action)| {
            Box::pin(async { expire::expire(session, *span, action).await.map(Ok) })
        })
        .await
    }
}

#[async_trait]
impl Operations for PostgresTransport {
    async fn plan(
        &self,
        plan: &OperationPlan,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError> {
        self.freeze(plan.clone(), checked(action)?).await
    }

    async fn requested(
        &self,
        actor: &str,
        request: &OperationRequest,
    ) -> Result<Option<Operation>, CatalogueError> {
        let input = (without_nul(actor.to_owned()), request.clone());
        self.look("requested", input, |session, (actor, request)| {
            Box::pin(requests::operation(session, actor, request))
        })
        .await
    }

    async fn command(
        &self,
        operation: OperationId,
        command: OperationCommand,
        action: &AuditedAction,
    ) -> Result<Operation, CatalogueError> {
        let input = ((operation, command), checked(action)?);
        self.transact("command", input, |session, (command, action)| {
            Box::pin(operations::command(session, *command, action))
        })
        .await
    }

    async fn advance(&self, operation: OperationId, most: u32) -> Result<Advance, CatalogueError> {
        self.transact("advance", (operation, most), |session, (operation, most)| {
            Box::pin(advance::advance(session, *operation, *most))
        })
        .await
    }

    async fn stop(
        &self,
        operation: OperationId,
        reason: &str,
    ) -> Result<Operation, CatalogueError> {
        check_text("reason", reason)?;
        self.transact("stop", (operation, reason.to_owned()), |session, (operation, reason)| {
            Box::pin(operations::stop(session, *operation, reason))
        })
        .await
    }

    async fn operation(&self, operation: OperationId) -> Result<Operation, CatalogueError> {
        self.look("operation", operation, |session, operation| {
            Box::pin(operations::operation(session, *operation))
        })
        .await
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError> {
        self.look("operations", limit, |session, limit| {
            Box::pin(async { operations::operations(session, *limit).await.map(Ok) })
        })
        .await
    }

    async fn running(&self, limit: u32) -> Result<Vec<Operation>, CatalogueError> {
        self.look("running", limit, |session, limit| {
            Box::pin(async { operations::running(session, *limit).await.map(Ok) })
        })
        .await
    }

    async fn items(
        &self,
        operation: OperationId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<OperationItem>, CatalogueError> {
        self.look("items", (operation, (after, limit)), |session, (operation, page)| {
            Box::pin(operations::items(session, *operation, *page))
        })
        .await
    }
}

#[async_trait]
impl BrokerIntake for PostgresTransport {
    async fn adopt(&self, queue: &QueueName) -> Result<(), CatalogueError> {
        self.transact("adopt", queue.clone(), |session, queue| {
            Box::pin(async { intake::adopt(session, queue).await.map(|_| Ok(())) })
        })
        .await
    }

    async fn take_in(
        &self,
        queue: &QueueName,
        letters: Vec<DeadLetter>,
    ) -> Result<u64, CatalogueError> {
        self.transact("take in", (queue.clone(), letters), |session, (queue, letters)| {
            Box::pin(intake::take_in(session, queue, letters))
        })
        .await
    }

    async fn removing(
        &self,
        queue: &QueueName,
        letters: &[DeadLetterId],
    ) -> Result<(), CatalogueError> {
        self.transact("removing", (queue.clone(), letters.to_vec()), |session, (queue, letters)| {
            Box::pin(recognition::removing(session, queue, letters))
        })
        .await
    }

    async fn announce(
        &self,
        queue: &QueueName,
        dying: Vec<(Message, Reason)>,
    ) -> Result<(), CatalogueError> {
        self.transact("announce", (queue.clone(), dying), |session, (queue, dying)| {
            Box::pin(announced::announce(session, queue, dying))
        })
        .await
    }

    async fn rejections(
        &self,
        filter: &RejectionFilter,
        limit: u32,
    ) -> Result<Vec<Rejection>, CatalogueError> {
        let input = (filter.clone(), limit.clamp(1, PAGE_LIMIT));
        self.look("rejections", input, |session, (filter, limit)| {
            Box::pin(async { announced::list(session, filter, *limit).await.map(Ok) })
        })
        .await
    }

    async fn completed(
        &self,
        queue: &QueueName,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Result<(), CatalogueError> {
        self.transact("completed", (queue.clone(), messages), |session, (queue, messages)| {
            Box::pin(async { intake::completed(session, queue, messages).await.map(Ok) })
        })
        .await
    }
}

#[async_trait]
impl AuditLog for PostgresTransport {
    async fn log(&self, action: &AuditedAction) -> Result<(), CatalogueError> {
        self.transact("log", checked(action)?, |session, action| {
            Box::pin(async { audit::append(session, action).await.map(Ok) })
        })
        .await
    }

    async fn audit(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, AuditHead), CatalogueError> {
        self.look("audit", (after, limit), |session, page| {
            Box::pin(async { audit::read(session, *page).await.map(Ok) })
        })
        .await
    }
}

#[async_trait]
impl Settings for PostgresTransport {
    async fn setting(&self, name: &str) -> Result<Option<String>, CatalogueError> {
        self.look("setting", name.to_owned(), |session, name| {
            Box::pin(async { settings::setting(session, name).await.map(Ok) })
        })
        .await
    }

    async fn check_writable(&self) -> Result<(), CatalogueError> {
        self.transact("check_writable", (), |session, ()| {
            Box::pin(async {
                if let Err(full) = intake::has_room(session, 0).await? {
                    return Ok(Err(full));
                }
                settings::touch(session).await.map(Ok)
            })
        })
        .await
    }

    async fn set(
        &self,
        name: &str,
        value: Option<&str>,
        action: &AuditedAction,
    ) -> Result<(), CatalogueError> {
        check_text("name", name)?;
        check_text("value", value.unwrap_or_default())?;
        let input = (name.to_owned(), value.map(str::to_owned), checked(action)?);
        self.transact("set", input, |session, (name, value, action)| {
            Box::pin(async {
                settings::set(session, (name, value.as_deref()), action).await.map(Ok)
            })
        })
        .await
    }
}
