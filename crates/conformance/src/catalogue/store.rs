//! What each case gets: a fresh store with two queues, and the steps that cases are built from.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{
    Code, CorrelationId, DeadLetter, DeadLetterId, Delivery, FailedTry, Failure, FailureKind,
    Message, MessageId, MessageType, Outgoing, QueueAdmin, QueueName, Reason, Recognition,
    Settlement, SubscribeOptions, Transport,
    catalogue::{
        Advance, AuditedAction, Catalogue, CatalogueError, Cause, DeadLetterRecord,
        DeadLetterSummary, Filter, HeldLetters, ListRequest, Operation, OperationCommand,
        OperationId, OperationItem, OperationKind, OperationPlan, ReplayIds, Selection, Verb,
    },
    millis,
};
use jiff::Timestamp;

use super::CatalogueHarness;

/// A text that must never be shown.
pub(crate) const CANARY: &str = "CANARY-7f3a-patient-doe";
/// A queue of a broker.
pub(crate) const RESULTS: &str = "hospital/results";

pub(crate) struct Store {
    harness: Box<dyn CatalogueHarness>,
}

impl Store {
    pub(crate) async fn open(harness: Box<dyn CatalogueHarness>) -> Self {
        let store = Self { harness };
        for name in ["lab", "x-ray"] {
            store.admin().provision(&queue(name)).await.expect("a queue can be provisioned");
        }
        store
    }

    pub(crate) fn catalogue(&self) -> Arc<dyn Catalogue> {
        self.harness.catalogue()
    }

    pub(crate) fn admin(&self) -> Arc<dyn QueueAdmin> {
        self.harness.admin()
    }

    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        self.harness.transport()
    }

    pub(crate) fn now(&self) -> Timestamp {
        millis(self.harness.now().as_millisecond())
    }

    pub(crate) async fn elapse(&self, seconds: u64) {
        self.harness.elapse(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn restart(&mut self) {
        self.harness.restart().await;
    }

    pub(crate) async fn restart_full(&mut self) {
        self.harness.restart_full().await;
    }

    pub(crate) async fn send(&self, to: &str, message: Message) {
        let sent = self.transport().send(&(&queue(to)).into(), &[Outgoing::from(message)]).await;
        for result in sent {
            result.expect("a message that fits is accepted");
        }
    }

    pub(crate) async fn receive(&self, from: &str, max: u32) -> Vec<Delivery> {
        let open = self.transport().subscribe(&queue(from), SubscribeOptions::default()).await;
        let max = NonZeroU32::new(max).expect("a case asks for at least one");
        open.expect("a queue can be opened")
            .receive(max, Duration::ZERO)
            .await
            .expect("messages can be received")
    }

    pub(crate) async fn settle(&self, from: &str, held: Vec<Delivery>, how: &Settlement) {
        let open = self.transport().subscribe(&queue(from), SubscribeOptions::default()).await;
        let batch = held.into_iter().map(|held| (held, how.clone())).collect();
        for result in open.expect("a queue can be opened").settle(batch).await {
            result.expect("a leased delivery can be settled");
        }
    }

    /// Receives everything that is ready and settles it; returns how many there were.
    pub(crate) async fn settle_all(&self, from: &str, how: &Settlement) -> usize {
        let held = self.receive(from, 1_000).await;
        let count = held.len();
        self.settle(from, held, how).await;
        count
    }

    /// Sends a message, dead-letters it and returns the id of the dead letter.
    pub(crate) async fn kill(&self, from: &str, message: Message, detail: &str) -> DeadLetterId {
        let id = message.id.clone();
        self.send(from, message).await;
        self.settle_all(from, &dead(detail)).await;
        let filter = Filter { message_id: Some(id), ..Filter::default() };
        self.list(&filter).await.first().expect("it is a dead letter").id
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
        let page = ListRequest { after: None, limit: 1_000 };
        self.catalogue().list(filter, &page).await.expect("dead letters can be listed")
    }

    pub(crate) async fn all(&self) -> Vec<DeadLetterSummary> {
        self.list(&Filter::default()).await
    }

    /// The only dead letter.
    pub(crate) async fn only(&self) -> DeadLetterSummary {
        let mut all = self.all().await;
        assert_eq!(all.len(), 1, "there is one dead letter");
        all.remove(0)
    }

    pub(crate) async fn count(&self, filter: &Filter) -> u64 {
        self.catalogue().count(filter).await.expect("dead letters can be counted").count
    }

    pub(crate) async fn record(&self, id: DeadLetterId) -> DeadLetterRecord {
        self.catalogue().record(id).await.expect("an existing dead letter can be read")
    }

    pub(crate) async fn causes(&self, filter: &Filter) -> Vec<Cause> {
        self.catalogue().causes(filter, 100).await.expect("causes can be listed")
    }

    pub(crate) async fn try_plan(
        &self,
        kind: OperationKind,
        selection: Selection,
        expect: Option<u64>,
        held: HeldLetters,
    ) -> Result<Operation, CatalogueError> {
        let plan = OperationPlan { kind, selection, expect, held, request: None };
        self.catalogue().plan(&plan, &action(Verb::Replay)).await
    }

    pub(crate) async fn plan(&self, kind: OperationKind, selection: Selection) -> Operation {
        let planned = self.try_plan(kind, selection, None, HeldLetters::Skip).await;
        planned.expect("a selection can be planned")
    }

    pub(crate) async fn command(&self, id: OperationId, command: OperationCommand) -> Operation {
        let done = self.catalogue().command(id, command, &action(Verb::Replay)).await;
        done.expect("the command is allowed in this state")
    }

    pub(crate) async fn advance(&self, id: OperationId, most: u32) -> Advance {
        self.catalogue().advance(id, most).await.expect("an operation can be advanced")
    }

    /// Plans and starts an operation, and carries out as much as is allowed.
    pub(crate) async fn run(&self, kind: OperationKind, selection: Selection) -> Operation {
        let id = self.plan(kind, selection).await.id;
        self.command(id, OperationCommand::Run).await;
        self.advance(id, 10_000).await.operation
    }

    pub(crate) async fn items(&self, id: OperationId) -> Vec<OperationItem> {
        self.catalogue().items(id, 0, 1_000).await.expect("items can be listed")
    }

    pub(crate) async fn operation(&self, id: OperationId) -> Operation {
        self.catalogue().operation(id).await.expect("an operation can be read")
    }

    /// The number of messages in flight, completed and failed.
    pub(crate) async fn outcomes(&self, id: OperationId) -> (u64, u64, u64) {
        let now = self.operation(id).await;
        (now.in_flight(), now.completed, now.failed)
    }

    pub(crate) async fn take_in(&self, letters: Vec<DeadLetter>) -> u64 {
        self.take_into(RESULTS, letters).await
    }

    pub(crate) async fn take_into(&self, name: &str, letters: Vec<DeadLetter>) -> u64 {
        let taken = self.catalogue().take_in(&queue(name), letters).await;
        taken.expect("dead letters can be taken in")
    }

    /// Sends everything that waits for the broker, as the intake does.
    pub(crate) async fn give_to_broker(&self, name: &str) -> Vec<Message> {
        let held = self.receive(name, 100).await;
        let messages = held.iter().map(|held| (*held.message).clone()).collect();
        self.settle(name, held, &Settlement::Complete).await;
        messages
    }

    pub(crate) async fn completed(&self, name: &str, operation: OperationId, message: &Message) {
        let done = vec![(operation, message.id.clone())];
        let told = self.catalogue().completed(&queue(name), done).await;
        told.expect("an outcome can be reported");
    }

    /// The verbs in the audit log.
    pub(crate) async fn verbs(&self) -> Vec<String> {
        let (entries, _) = self.catalogue().audit(0, 1_000).await.expect("the log can be read");
        entries.into_iter().map(|entry| entry.verb).collect()
    }
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("valid name")
}

pub(crate) fn message(id: &str) -> Message {
    typed(id, "lab.result")
}

pub(crate) fn typed(id: &str, message_type: &str) -> Message {
    let message_type = MessageType::new(message_type).expect("valid name");
    let id_text = id.to_owned();
    Message::new(MessageId::new(id_text).expect("valid name"), message_type, millis(1_000), CANARY)
        .with_header("name", CANARY)
        .with_correlation_id(CorrelationId::new(format!("of {id}")).expect("valid name"))
}

pub(crate) fn tried(kind: FailureKind, code: &str, detail: &str) -> FailedTry {
    let failure = Failure::new(kind, detail).with_code(Code::new(code).expect("a valid code"));
    FailedTry::new(millis(1_000), Duration::ZERO, &failure)
}

pub(crate) fn reason() -> Reason {
    Reason::new(Reason::EXHAUSTED, "retries exhausted")
}

pub(crate) fn dead(detail: &str) -> Settlement {
    dead_by(FailureKind::Transient, "boom", detail)
}

pub(crate) fn dead_by(kind: FailureKind, code: &str, detail: &str) -> Settlement {
    Settlement::DeadLetter { reason: reason(), tries: vec![tried(kind, code, detail)] }
}

/// A dead letter from a broker, with one failed attempt.
pub(crate) fn letter(id: i64, mut message: Message) -> DeadLetter {
    message.ledger.fail(vec![tried(FailureKind::Transient, "boom", "boom")]);
    rejected(id, message, reason())
}

/// A dead letter from a broker.
pub(crate) fn rejected(id: i64, message: Message, reason: Reason) -> DeadLetter {
    DeadLetter {
        id: DeadLetterId::from_number(id),
        queue: queue(RESULTS),
        message,
        reason,
        at: millis(5_000),
        recognition: Recognition::Id,
    }
}

pub(crate) fn action(verb: Verb) -> AuditedAction {
    action_of("ann", verb)
}

pub(crate) fn action_of(actor: &str, verb: Verb) -> AuditedAction {
    AuditedAction {
        actor: actor.to_owned(),
        address: "127.0.0.1".to_owned(),
        verb,
        target: "it".to_owned(),
        reason: "a test".to_owned(),
    }
}

pub(crate) fn replay() -> OperationKind {
    replay_with(0, None, ReplayIds::Same)
}

pub(crate) fn replay_with(canary: u32, stop_after: Option<u32>, ids: ReplayIds) -> OperationKind {
    OperationKind::Replay { canary, per_second: None, stop_after, ids }
}

pub(crate) fn everything() -> Selection {
    Selection::Matching(Filter::default())
}

/// An id that no dead letter has.
pub(crate) fn no_dead_letter() -> DeadLetterId {
    DeadLetterId::from_number(987_654_321)
}

/// An id that no operation has.
pub(crate) fn no_operation() -> OperationId {
    OperationId::from_number(987_654_321)
}
