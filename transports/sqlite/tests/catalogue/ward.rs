//! A database with two queues, and the actions of the tests.

use std::{num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

pub(crate) use bezoar_core::catalogue::{
    AuditLog as _, DeadLetterCatalogue as _, Operations as _, Settings as _,
};
use bezoar_core::{
    Code, CorrelationId, DeadLetterId, Delivery, FailedTry, Failure, FailureKind, ManualClock,
    Message, MessageId, MessageType, Outgoing, QueueAdmin, QueueName, Reason, Settlement,
    SubscribeOptions, Transport,
    catalogue::{
        Advance, AuditedAction, DeadLetterSummary, Filter, HeldLetters, ListRequest, Operation,
        OperationCommand, OperationId, OperationItem, OperationKind, OperationPlan, ReplayIds,
        Selection, Verb,
    },
    millis,
};
use bezoar_sqlite::{Options, SqliteTransport};
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) const CANARY: &str = "CANARY-7f3a-patient-doe";

pub(crate) struct Ward {
    pub(crate) store: SqliteTransport,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) folder: TempDir,
}

impl Ward {
    pub(crate) async fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn in_folder(folder: TempDir) -> Self {
        let clock = Arc::new(ManualClock::default());
        let options =
            Options { clock: clock.clone(), ..Options::new(folder.path().join("ward.db")) };
        let store = SqliteTransport::open(options).unwrap();
        for name in ["lab", "x-ray"] {
            store.provision(&queue(name)).await.unwrap();
        }
        Self { store, clock, folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("ward.db")
    }

    pub(crate) fn sql(&self, statements: &str) {
        connection(&self.path()).execute_batch(statements).unwrap();
    }

    pub(crate) fn one(&self, query: &str) -> i64 {
        connection(&self.path()).query_row(query, [], |row| row.get(0)).unwrap()
    }

    pub(crate) async fn send(&self, to: &str, message: Message) {
        for result in self.store.send(&queue(to).into(), &[Outgoing::from(message)]).await {
            result.unwrap();
        }
    }

    pub(crate) async fn receive(&self, from: &str, max: u32) -> Vec<Delivery> {
        let open = self.store.subscribe(&queue(from), SubscribeOptions::default()).await.unwrap();
        open.receive(NonZeroU32::new(max).unwrap(), Duration::ZERO).await.unwrap()
    }

    pub(crate) async fn settle(&self, from: &str, held: Vec<Delivery>, how: &Settlement) {
        let open = self.store.subscribe(&queue(from), SubscribeOptions::default()).await.unwrap();
        let batch = held.into_iter().map(|held| (held, how.clone())).collect();
        for result in open.settle(batch).await {
            result.unwrap();
        }
    }

    /// Receives everything that is ready and settles it; returns how many there were.
    pub(crate) async fn settle_all(&self, from: &str, how: &Settlement) -> usize {
        let held = self.receive(from, 10_000).await;
        let count = held.len();
        self.settle(from, held, how).await;
        count
    }

    /// Sends a message, dead-letters it and returns the id of the dead letter.
    pub(crate) async fn kill(&self, from: &str, message: Message, detail: &str) -> DeadLetterId {
        self.send(from, message).await;
        self.settle_all(from, &dead(detail)).await;
        self.latest().await.id
    }

    pub(crate) async fn kill_many(
        &self,
        from: &str,
        count: usize,
        detail: &str,
    ) -> Vec<DeadLetterId> {
        let mut killed = Vec::new();
        for number in 0..count {
            killed.push(self.kill(from, message(&format!("{from}-{number}")), detail).await);
        }
        killed
    }

    pub(crate) async fn list(&self, filter: &Filter) -> Vec<DeadLetterSummary> {
        self.store.list(filter, &ListRequest { after: None, limit: 1_000 }).await.unwrap()
    }

    pub(crate) async fn latest(&self) -> DeadLetterSummary {
        let page = ListRequest { after: None, limit: 1 };
        self.store.list(&Filter::default(), &page).await.unwrap().remove(0)
    }

    pub(crate) async fn plan(&self, kind: OperationKind, selection: Selection) -> Operation {
        self.store
            .plan(
                &OperationPlan {
                    kind,
                    selection,
                    expect: None,
                    held: HeldLetters::Skip,
                    request: None,
                },
                &act(Verb::Replay),
            )
            .await
            .unwrap()
    }

    pub(crate) async fn command(&self, id: OperationId, command: OperationCommand) -> Operation {
        self.store.command(id, command, &act(Verb::Replay)).await.unwrap()
    }

    pub(crate) async fn advance(&self, id: OperationId, most: u32) -> Advance {
        self.store.advance(id, most).await.unwrap()
    }

    /// Plans, starts and carries out an operation.
    pub(crate) async fn run(&self, kind: OperationKind, selection: Selection) -> Operation {
        let id = self.plan(kind, selection).await.id;
        self.command(id, OperationCommand::Run).await;
        self.advance(id, 10_000).await.operation
    }

    pub(crate) async fn items(&self, id: OperationId) -> Vec<OperationItem> {
        self.store.items(id, 0, 1_000).await.unwrap()
    }

    pub(crate) async fn operation(&self, id: OperationId) -> Operation {
        self.store.operation(id).await.unwrap()
    }
}

pub(crate) fn connection(path: &std::path::Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn message(id: &str) -> Message {
    let message_type = MessageType::new("lab.result").unwrap();
    Message::new(MessageId::new(id).unwrap(), message_type, millis(1_000), CANARY)
        .with_header("name", CANARY)
        .with_correlation_id(CorrelationId::new(format!("of {id}")).unwrap())
}

pub(crate) fn failed_try(kind: FailureKind, code: &str, detail: &str) -> FailedTry {
    let failure = Failure::new(kind, detail).with_code(Code::new(code).unwrap());
    FailedTry::new(millis(1_000), Duration::ZERO, &failure)
}

pub(crate) fn reason() -> Reason {
    Reason::new(Reason::EXHAUSTED, "retries exhausted")
}

pub(crate) fn dead(detail: &str) -> Settlement {
    dead_by(FailureKind::Transient, "boom", detail)
}

pub(crate) fn dead_by(kind: FailureKind, code: &str, detail: &str) -> Settlement {
    Settlement::DeadLetter { reason: reason(), tries: vec![failed_try(kind, code, detail)] }
}

pub(crate) fn act(verb: Verb) -> AuditedAction {
    act_of("ann", verb)
}

pub(crate) fn act_of(who: &str, verb: Verb) -> AuditedAction {
    let text = str::to_owned;
    AuditedAction {
        actor: who.to_owned(),
        address: text("127.0.0.1"),
        verb,
        target: text("it"),
        reason: text("a test"),
    }
}

pub(crate) fn replay() -> OperationKind {
    OperationKind::Replay { canary: 0, per_second: None, stop_after: None, ids: ReplayIds::Same }
}

pub(crate) fn everything() -> Selection {
    Selection::Matching(Filter::default())
}
