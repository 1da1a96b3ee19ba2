//! Rates and waiting times follow the clock that was passed in, whatever time the tests take. The tests run the rounds
//! one by one, so they never have to wait.

use std::num::NonZeroU32;

use bezoar_core::{
    Destination, FailedTry, Failure, ManualClock, Message, MessageId, MessageType, Outgoing,
    QueueAdmin as _, QueueName, Reason, Settlement, SubscribeOptions, Transport as _,
    catalogue::{
        AuditedAction, Filter, HeldLetters, OperationCommand, OperationPlan, Operations as _,
        ReplayIds, Selection, Verb,
    },
    millis,
};
use bezoar_sqlite::{Options, SqliteTransport};
use tempfile::TempDir;

use super::*;

struct Lab {
    store: SqliteTransport,
    clock: Arc<ManualClock>,
    conductor: Conductor,
    paces: HashMap<OperationId, Pace>,
    _folder: TempDir,
}

impl Lab {
    /// Creates a store with this many dead letters.
    async fn with_dead(count: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteTransport::open(Options::new(folder.path().join("lab.db"))).unwrap();
        store.provision(&queue()).await.unwrap();
        let batch: Vec<_> = (0..count).map(message).collect();
        for sent in store.send(&Destination::from(queue()), &batch).await {
            sent.unwrap();
        }
        let reason = Reason::new(Reason::EXHAUSTED, "max retries (3) exhausted");
        let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &Failure::permanent("no"))];
        let subscription = store.subscribe(&queue(), SubscribeOptions::default()).await.unwrap();
        let most = NonZeroU32::new(count).unwrap();
        let leased = subscription.receive(most, Duration::ZERO).await.unwrap();
        let dead = Settlement::DeadLetter { reason, tries };
        let batch = leased.into_iter().map(|leased| (leased, dead.clone())).collect();
        for settled in subscription.settle(batch).await {
            settled.unwrap();
        }
        let clock = Arc::new(ManualClock::default());
        let conductor = Conductor::new(Arc::new(store.clone()), clock.clone());
        Self { store, clock, conductor, paces: HashMap::new(), _folder: folder }
    }

    async fn replay(&self, canary: u32, per_second: Option<f64>) -> OperationId {
        let kind =
            OperationKind::Replay { canary, per_second, stop_after: None, ids: ReplayIds::Same };
        let plan = OperationPlan {
            kind,
            selection: Selection::Matching(Filter::default()),
            expect: None,
            held: HeldLetters::Refuse,
            request: None,
        };
        let planned = self.store.plan(&plan, &action()).await.unwrap();
        self.store.command(planned.id, OperationCommand::Run, &action()).await.unwrap().id
    }

    /// Runs many rounds while the clock stands still; returns how many letters were replayed so far.
    async fn rounds(&mut self, replay: OperationId) -> u64 {
        for _ in 0..20 {
            self.conductor.round(&mut self.paces).await.unwrap();
        }
        self.store.operation(replay).await.unwrap().done
    }
}

fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

fn message(number: u32) -> Outgoing {
    let id = MessageId::new(format!("m-{number}")).unwrap();
    Message::new(id, MessageType::new("lab.result").unwrap(), millis(0), "x").into()
}

fn action() -> AuditedAction {
    AuditedAction {
        actor: "test".to_owned(),
        address: "here".to_owned(),
        verb: Verb::Replay,
        target: "all".to_owned(),
        reason: "fixed".to_owned(),
    }
}

#[tokio::test]
async fn a_rate_follows_the_clock_that_was_passed_in() {
    let mut lab = Lab::with_dead(40).await;
    let replay = lab.replay(0, Some(50.0)).await;
    assert_eq!(lab.rounds(replay).await, 1, "the clock stands still");
    lab.clock.advance(Duration::from_millis(100));
    assert_eq!(lab.rounds(replay).await, 6);
    lab.clock.advance(Duration::from_secs(3_600));
    assert_eq!(lab.rounds(replay).await, 16, "an hour allows no more than one burst");
}

#[tokio::test]
async fn the_wait_for_a_canary_is_measured_by_the_clock_that_was_passed_in() {
    let mut lab = Lab::with_dead(10).await;
    let replay = lab.replay(3, None).await;
    assert_eq!(lab.conductor.waiting_for_canary(replay), None);
    assert_eq!(lab.rounds(replay).await, 3);
    assert_eq!(lab.conductor.waiting_for_canary(replay), Some(Duration::ZERO));
    lab.clock.advance(Duration::from_secs(75));
    assert_eq!(lab.rounds(replay).await, 3);
    assert_eq!(lab.conductor.waiting_for_canary(replay), Some(Duration::from_secs(75)));
}
