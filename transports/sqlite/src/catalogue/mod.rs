//! The catalogue of dead letters, in the same database as the queues: what becomes of a message, what is counted and what
//! is written to the audit log are one transaction.
//!
//! | file | what |
//! | --- | --- |
//! | `dying.rs` | a message is set aside |
//! | `tally.rs` | counters of causes and operations, written once per transaction |
//! | `bounds.rs` `walk.rs` | from a filter to the dead letters that fit |
//! | `list.rs` `record.rs` `causes.rs` | what operators look at |
//! | `pick.rs` `plan.rs` `advance.rs` `operations.rs` | replays and discards |
//! | `edit.rs` `import.rs` `expire.rs` | versions, dead letters from elsewhere, old ones |
//! | `take_in.rs` `announced.rs` | dead letters of brokers, and what is replayed to them; what brokers cannot say of them |
//! | `audit.rs` | who did what, and settings |

mod advance;
mod announced;
mod audit;
mod bounds;
mod causes;
mod dying;
mod edit;
mod expire;
mod import;
mod list;
mod operations;
mod pick;
mod plan;
mod record;
mod take_in;
mod tally;
mod walk;

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterId, ErrorKind, Invalid, Message, MessageId, QueueName, Reason,
    catalogue::{
        Act, Advance, AuditEntry, AuditHead, Catalogue, CatalogueError, Cause, CauseId, CauseState,
        Count, Entry, Filter, Item, Listing, Operation, OperationId, Order, Plan, Record,
    },
};
use jiff::Timestamp;
use rusqlite::Connection;

pub(crate) use dying::{Arrival, Dying, last_failure};
pub(crate) use edit::reopen_original;
pub(crate) use operations::FREE;
pub(crate) use tally::{Tally, replay_of};

use crate::{SqliteTransport, error::error, session::Session};

/// How many records, and how many bytes of their bodies, are imported at once.
const IMPORT_LIMIT: usize = 10_000;
const IMPORT_LIMIT_BYTES: usize = 64 * 1024 * 1024;
/// The most that are removed or grouped anew in one transaction.
const CHUNK_LIMIT: u32 = 10_000;

impl SqliteTransport {
    /// Runs `work` in a transaction. If it refuses, nothing of it is done.
    async fn act<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Session, &Connection) -> operations::Found<T> + Send + 'static,
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
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "edit").into();
        message.check_headers().map_err(invalid)
    }

    fn check_import(&self, records: &[(String, Record)]) -> Result<(), CatalogueError> {
        let bytes: usize = records.iter().map(|(_, record)| record.message.body.len()).sum();
        if records.len() > IMPORT_LIMIT || (bytes > IMPORT_LIMIT_BYTES && records.len() > 1) {
            let problem = format!(
                "are {} with {bytes} bytes, at most {IMPORT_LIMIT} with {IMPORT_LIMIT_BYTES} are accepted",
                records.len()
            );
            let invalid = ErrorKind::Invalid(Invalid::new("records", problem));
            return Err(error(invalid, "import").into());
        }
        for (stamp, record) in records {
            audit::check_texts(&[("stamp", stamp)])?;
            self.check_message(&record.message)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Catalogue for SqliteTransport {
    async fn list(&self, filter: &Filter, page: &Listing) -> Result<Vec<Entry>, CatalogueError> {
        let (filter, page) = (filter.clone(), *page);
        Ok(self.read("list", move |it| list::list(it, &filter, &page)).await?)
    }

    async fn count(&self, filter: &Filter) -> Result<Count, CatalogueError> {
        let filter = filter.clone();
        Ok(self.read("count", move |it| list::count(it, &filter)).await?)
    }

    async fn record(&self, id: DeadLetterId) -> Result<Record, CatalogueError> {
        self.read("record", move |it| record::record(it, id)).await?
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
        act: &Act,
    ) -> Result<Cause, CatalogueError> {
        audit::check(act)?;
        audit::check_texts(&[("note", note.unwrap_or_default())])?;
        let (cause, note, act) = (cause.clone(), note.map(str::to_owned), act.clone());
        self.act("mark", move |session, it| {
            causes::mark(session, it, (&cause, state, note.as_deref()), &act)
        })
        .await
    }

    async fn regroup(&self, limit: u32) -> Result<u32, CatalogueError> {
        let limit = limit.min(CHUNK_LIMIT);
        self.act("regroup", move |session, it| causes::regroup(session, it, limit).map(Ok)).await
    }

    async fn plan(&self, plan: &Plan, act: &Act) -> Result<Operation, CatalogueError> {
        audit::check(act)?;
        self.freeze(plan, act).await
    }

    async fn order(
        &self,
        operation: OperationId,
        order: Order,
        act: &Act,
    ) -> Result<Operation, CatalogueError> {
        audit::check(act)?;
        let act = act.clone();
        self.act("order", move |session, it| {
            operations::order(session, it, (operation, order), &act)
        })
        .await
    }

    async fn advance(&self, operation: OperationId, most: u32) -> Result<Advance, CatalogueError> {
        self.act("advance", move |session, it| advance::advance(session, it, operation, most)).await
    }

    async fn stop(&self, operation: OperationId, why: &str) -> Result<Operation, CatalogueError> {
        audit::check_texts(&[("why", why)])?;
        let why = why.to_owned();
        self.act("stop", move |_, it| operations::stop(it, operation, &why)).await
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
    ) -> Result<Vec<Item>, CatalogueError> {
        self.read("items", move |it| operations::items(it, operation, after, limit)).await?
    }

    async fn edit(
        &self,
        id: DeadLetterId,
        edited: Message,
        needs_approval: bool,
        act: &Act,
    ) -> Result<Entry, CatalogueError> {
        audit::check(act)?;
        self.check_message(&edited)?;
        let (edit, act) = (edit::Edit { id, message: edited, needs_approval }, act.clone());
        self.act("edit", move |session, it| edit::edit(session, it, &edit, &act)).await
    }

    async fn approve(&self, id: DeadLetterId, act: &Act) -> Result<Entry, CatalogueError> {
        audit::check(act)?;
        let act = act.clone();
        self.act("approve", move |session, it| edit::approve(session, it, id, &act)).await
    }

    async fn import(
        &self,
        records: Vec<(String, Record)>,
        act: &Act,
    ) -> Result<u64, CatalogueError> {
        audit::check(act)?;
        self.check_import(&records)?;
        let act = act.clone();
        self.act("import", move |session, it| import::import(session, it, &records, &act).map(Ok))
            .await
    }

    async fn adopt(&self, queue: &QueueName) -> Result<(), CatalogueError> {
        let queue = queue.clone();
        self.act("adopt", move |session, it| take_in::adopt(session, it, &queue).map(|_| Ok(())))
            .await
    }

    async fn take_in(
        &self,
        queue: &QueueName,
        letters: Vec<DeadLetter>,
    ) -> Result<u64, CatalogueError> {
        let queue = queue.clone();
        self.act("take in", move |session, it| {
            take_in::take_in(session, it, &queue, &letters).map(Ok)
        })
        .await
    }

    async fn announce(
        &self,
        queue: &QueueName,
        dying: Vec<(Message, Reason)>,
    ) -> Result<(), CatalogueError> {
        let queue = queue.clone();
        self.act("announce", move |session, it| {
            announced::announce(session, it, &queue, &dying).map(Ok)
        })
        .await
    }

    async fn completed(
        &self,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Result<(), CatalogueError> {
        self.act("completed", move |session, it| take_in::completed(session, it, &messages).map(Ok))
            .await
    }

    async fn expire(
        &self,
        before: Timestamp,
        limit: u32,
        act: &Act,
    ) -> Result<u32, CatalogueError> {
        audit::check(act)?;
        let (span, act) = ((before.as_millisecond(), limit.min(CHUNK_LIMIT)), act.clone());
        self.act("expire", move |session, it| expire::expire(session, it, span, &act).map(Ok)).await
    }

    async fn log(&self, act: &Act) -> Result<(), CatalogueError> {
        audit::check(act)?;
        let act = act.clone();
        self.act("log", move |session, it| audit::append(session, it, &act).map(Ok)).await
    }

    async fn audit(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, AuditHead), CatalogueError> {
        Ok(self.read("audit", move |it| audit::read(it, after, limit)).await?)
    }

    async fn setting(&self, name: &str) -> Result<Option<String>, CatalogueError> {
        let name = name.to_owned();
        Ok(self.read("setting", move |it| audit::setting(it, &name)).await?)
    }

    async fn set(&self, name: &str, value: Option<&str>, act: &Act) -> Result<(), CatalogueError> {
        audit::check(act)?;
        audit::check_texts(&[("name", name), ("value", value.unwrap_or_default())])?;
        let (name, value, act) = (name.to_owned(), value.map(str::to_owned), act.clone());
        self.act("set", move |session, it| {
            audit::set(session, it, (&name, value.as_deref()), &act).map(Ok)
        })
        .await
    }
}
