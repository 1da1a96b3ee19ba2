//! A wrapper around a correct catalogue that changes values passing through it: the simple defects.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterId, Message, MessageId, QueueName, Reason,
    catalogue::{
        Advance, AuditEntry, AuditHead, AuditLog, AuditedAction, BrokerIntake, Catalogue,
        CatalogueError, Cause, CauseId, CauseState, Count, DeadLetterCatalogue, DeadLetterRecord,
        DeadLetterSummary, Filter, ListRequest, Operation, OperationCommand, OperationId,
        OperationItem, OperationPlan, OperationRequest, Operations, Rejection, RejectionFilter,
        Settings,
    },
};
use jiff::Timestamp;

pub(crate) type Change<T> = Box<dyn Fn(&mut T) + Send + Sync>;

/// Changes some values; all others pass unchanged.
pub(crate) struct Defect {
    // Arguments.
    pub(crate) filter: Change<Filter>,
    pub(crate) request: Change<ListRequest>,
    pub(crate) plan: Change<OperationPlan>,
    pub(crate) most: Change<u32>,
    pub(crate) edited: Change<(Message, bool)>,
    pub(crate) approval: Change<AuditedAction>,
    pub(crate) action: Change<AuditedAction>,
    pub(crate) imported: Change<Vec<(String, DeadLetterRecord)>>,
    pub(crate) letters: Change<Vec<DeadLetter>>,
    pub(crate) removing: Change<Vec<DeadLetterId>>,
    pub(crate) announced: Change<Vec<(Message, Reason)>>,
    pub(crate) outcomes: Change<Vec<(OperationId, MessageId)>>,
    pub(crate) outcome_queue: Change<QueueName>,
    pub(crate) expiry: Change<Timestamp>,
    pub(crate) mark: Change<(CauseState, Option<String>)>,
    pub(crate) value: Change<Option<String>>,
    // Results.
    pub(crate) listed: Change<Vec<DeadLetterSummary>>,
    pub(crate) counted: Change<Count>,
    pub(crate) record: Change<DeadLetterRecord>,
    pub(crate) without_body: Change<DeadLetterRecord>,
    pub(crate) writable: Change<Answer<()>>,
    pub(crate) causes: Change<Vec<Cause>>,
    pub(crate) operation: Change<Operation>,
    pub(crate) operations: Change<Vec<Operation>>,
    pub(crate) items: Change<Vec<OperationItem>>,
    pub(crate) audit: Change<(Vec<AuditEntry>, AuditHead)>,
    pub(crate) refusal: Change<CatalogueError>,
}

fn nothing<T>() -> Change<T> {
    Box::new(|_| ())
}

impl Default for Defect {
    fn default() -> Self {
        Self {
            filter: nothing(),
            request: nothing(),
            plan: nothing(),
            most: nothing(),
            edited: nothing(),
            approval: nothing(),
            action: nothing(),
            imported: nothing(),
            letters: nothing(),
            removing: nothing(),
            announced: nothing(),
            outcomes: nothing(),
            outcome_queue: nothing(),
            expiry: nothing(),
            mark: nothing(),
            value: nothing(),
            listed: nothing(),
            counted: nothing(),
            record: nothing(),
            without_body: nothing(),
            writable: nothing(),
            causes: nothing(),
            operation: nothing(),
            operations: nothing(),
            items: nothing(),
            audit: nothing(),
            refusal: nothing(),
        }
    }
}

pub(crate) struct Broken {
    pub(crate) inner: Arc<dyn Catalogue>,
    pub(crate) defect: Arc<Defect>,
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broken")
    }
}

fn changed<T: Clone>(value: &T, change: &Change<T>) -> T {
    let mut value = value.clone();
    change(&mut value);
    value
}

impl Broken {
    fn answer<T>(
        &self,
        result: Result<T, CatalogueError>,
        change: &Change<T>,
    ) -> Result<T, CatalogueError> {
        match result {
            Ok(mut value) => {
                change(&mut value);
                Ok(value)
            }
            Err(mut error) => {
                (self.defect.refusal)(&mut error);
                Err(error)
            }
        }
    }

    fn action(&self, action: &AuditedAction) -> AuditedAction {
        changed(action, &self.defect.action)
    }
}

type Answer<T> = Result<T, CatalogueError>;

#[async_trait]
impl DeadLetterCatalogue for Broken {
    async fn list(&self, filter: &Filter, page: &ListRequest) -> Answer<Vec<DeadLetterSummary>> {
        let filter = changed(filter, &self.defect.filter);
        let page = changed(page, &self.defect.request);
        self.answer(self.inner.list(&filter, &page).await, &self.defect.listed)
    }

    async fn count(&self, filter: &Filter) -> Answer<Count> {
        let filter = changed(filter, &self.defect.filter);
        self.answer(self.inner.count(&filter).await, &self.defect.counted)
    }

    async fn record(&self, id: DeadLetterId) -> Answer<DeadLetterRecord> {
        self.answer(self.inner.record(id).await, &self.defect.record)
    }

    async fn record_without_body(&self, id: DeadLetterId) -> Answer<DeadLetterRecord> {
        self.answer(self.inner.record_without_body(id).await, &self.defect.without_body)
    }

    async fn causes(&self, filter: &Filter, limit: u32) -> Answer<Vec<Cause>> {
        self.answer(self.inner.causes(filter, limit).await, &self.defect.causes)
    }

    async fn mark(
        &self,
        cause: &CauseId,
        state: CauseState,
        note: Option<&str>,
        action: &AuditedAction,
    ) -> Answer<Cause> {
        let (state, note) = changed(&(state, note.map(str::to_owned)), &self.defect.mark);
        self.inner.mark(cause, state, note.as_deref(), &self.action(action)).await
    }

    async fn regroup(&self, limit: u32) -> Answer<u32> {
        self.inner.regroup(limit).await
    }

    async fn edit(
        &self,
        id: DeadLetterId,
        edited: Message,
        needs_approval: bool,
        action: &AuditedAction,
    ) -> Answer<DeadLetterSummary> {
        let (edited, needs) = changed(&(edited, needs_approval), &self.defect.edited);
        self.inner.edit(id, edited, needs, &self.action(action)).await
    }

    async fn approve(&self, id: DeadLetterId, action: &AuditedAction) -> Answer<DeadLetterSummary> {
        self.inner.approve(id, &changed(action, &self.defect.approval)).await
    }

    async fn import(
        &self,
        records: Vec<(String, DeadLetterRecord)>,
        action: &AuditedAction,
    ) -> Answer<u64> {
        let records = changed(&records, &self.defect.imported);
        self.answer(self.inner.import(records, &self.action(action)).await, &nothing())
    }

    async fn expire(&self, before: Timestamp, limit: u32, action: &AuditedAction) -> Answer<u32> {
        let before = changed(&before, &self.defect.expiry);
        self.inner.expire(before, limit, &self.action(action)).await
    }
}

#[async_trait]
impl Operations for Broken {
    async fn plan(&self, plan: &OperationPlan, action: &AuditedAction) -> Answer<Operation> {
        let plan = changed(plan, &self.defect.plan);
        let planned = self.inner.plan(&plan, &self.action(action)).await;
        self.answer(planned, &self.defect.operation)
    }

    async fn requested(
        &self,
        actor: &str,
        request: &OperationRequest,
    ) -> Answer<Option<Operation>> {
        self.inner.requested(actor, request).await
    }

    async fn command(
        &self,
        operation: OperationId,
        command: OperationCommand,
        action: &AuditedAction,
    ) -> Answer<Operation> {
        let done = self.inner.command(operation, command, &self.action(action)).await;
        self.answer(done, &self.defect.operation)
    }

    async fn advance(&self, operation: OperationId, most: u32) -> Answer<Advance> {
        let most = changed(&most, &self.defect.most);
        self.inner.advance(operation, most).await
    }

    async fn stop(&self, operation: OperationId, reason: &str) -> Answer<Operation> {
        self.answer(self.inner.stop(operation, reason).await, &self.defect.operation)
    }

    async fn operation(&self, operation: OperationId) -> Answer<Operation> {
        self.answer(self.inner.operation(operation).await, &self.defect.operation)
    }

    async fn operations(&self, limit: u32) -> Answer<Vec<Operation>> {
        self.answer(self.inner.operations(limit).await, &self.defect.operations)
    }

    async fn running(&self, limit: u32) -> Answer<Vec<Operation>> {
        self.answer(self.inner.running(limit).await, &self.defect.operations)
    }

    async fn items(
        &self,
        operation: OperationId,
        after: u64,
        limit: u32,
    ) -> Answer<Vec<OperationItem>> {
        self.answer(self.inner.items(operation, after, limit).await, &self.defect.items)
    }
}

#[async_trait]
impl BrokerIntake for Broken {
    async fn adopt(&self, queue: &QueueName) -> Answer<()> {
        self.inner.adopt(queue).await
    }

    async fn take_in(&self, queue: &QueueName, letters: Vec<DeadLetter>) -> Answer<u64> {
        let letters = changed(&letters, &self.defect.letters);
        self.answer(self.inner.take_in(queue, letters).await, &nothing())
    }

    async fn removing(&self, queue: &QueueName, letters: &[DeadLetterId]) -> Answer<()> {
        let letters = changed(&letters.to_vec(), &self.defect.removing);
        self.inner.removing(queue, &letters).await
    }

    async fn announce(&self, queue: &QueueName, dying: Vec<(Message, Reason)>) -> Answer<()> {
        self.inner.announce(queue, changed(&dying, &self.defect.announced)).await
    }

    async fn rejections(&self, filter: &RejectionFilter, limit: u32) -> Answer<Vec<Rejection>> {
        self.inner.rejections(filter, limit).await
    }

    async fn completed(
        &self,
        queue: &QueueName,
        messages: Vec<(OperationId, MessageId)>,
    ) -> Answer<()> {
        let queue = changed(queue, &self.defect.outcome_queue);
        self.inner.completed(&queue, changed(&messages, &self.defect.outcomes)).await
    }
}

#[async_trait]
impl AuditLog for Broken {
    async fn log(&self, action: &AuditedAction) -> Answer<()> {
        self.inner.log(&self.action(action)).await
    }

    async fn audit(&self, after: u64, limit: u32) -> Answer<(Vec<AuditEntry>, AuditHead)> {
        self.answer(self.inner.audit(after, limit).await, &self.defect.audit)
    }
}

#[async_trait]
impl Settings for Broken {
    async fn setting(&self, name: &str) -> Answer<Option<String>> {
        self.inner.setting(name).await
    }

    async fn check_writable(&self) -> Answer<()> {
        let mut answer = self.inner.check_writable().await;
        (self.defect.writable)(&mut answer);
        answer
    }

    async fn set(&self, name: &str, value: Option<&str>, action: &AuditedAction) -> Answer<()> {
        let value = changed(&value.map(str::to_owned), &self.defect.value);
        self.inner.set(name, value.as_deref(), &self.action(action)).await
    }
}
