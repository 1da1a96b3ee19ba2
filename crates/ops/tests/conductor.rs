//! Operations run to their end at their rate, and resume after a restart.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{
    Destination, FailedTry, Failure, Message, MessageId, MessageType, Outgoing, QueueAdmin,
    QueueName, Reason, Settlement, SubscribeOptions, Subscription, SystemClock, Transport,
    catalogue::{
        AuditLog as _, AuditedAction, DeadLetterCatalogue as _, Filter, HeldLetters, ListRequest,
        Operation, OperationCommand, OperationKind, OperationPlan, OperationState, Operations as _,
        ReplayIds, Selection, Verb,
    },
    millis,
};
use bezoar_ops::{Conductor, Retention};
use bezoar_runtime::Shutdown;
use bezoar_sqlite::{Options, SqliteTransport};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

struct Lab {
    store: SqliteTransport,
    folder: TempDir,
}

impl Lab {
    /// Creates a store with this many dead letters.
    async fn with_dead(count: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteTransport::open(Options::new(folder.path().join("lab.db"))).unwrap();
        store.provision(&queue()).await.unwrap();
        let message = |number: u32| -> Outgoing {
            let id = MessageId::new(format!("m-{number}")).unwrap();
            Message::new(id, MessageType::new("lab.result").unwrap(), millis(0), "x").into()
        };
        let batch: Vec<_> = (0..count).map(message).collect();
        for sent in store.send(&Destination::from(queue()), &batch).await {
            sent.unwrap();
        }
        let lab = Self { store, folder };
        let reason = Reason::new(Reason::EXHAUSTED, "max retries (3) exhausted");
        let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &Failure::permanent("no"))];
        lab.settle(count, &Settlement::DeadLetter { reason, tries }).await;
        lab
    }

    async fn subscription(&self) -> Box<dyn Subscription> {
        self.store.subscribe(&queue(), SubscribeOptions::default()).await.unwrap()
    }

    /// Receives up to `most` messages and settles them; returns how many there were.
    async fn settle(&self, most: u32, settlement: &Settlement) -> usize {
        let subscription = self.subscription().await;
        let most = NonZeroU32::new(most).unwrap();
        let held = subscription.receive(most, Duration::ZERO).await.unwrap();
        let count = held.len();
        let batch = held.into_iter().map(|held| (held, settlement.clone())).collect();
        for settled in subscription.settle(batch).await {
            settled.unwrap();
        }
        count
    }

    async fn replay(&self, canary: u32, per_second: Option<f64>) -> Operation {
        let kind =
            OperationKind::Replay { canary, per_second, stop_after: None, ids: ReplayIds::Same };
        let plan = OperationPlan {
            kind,
            selection: Selection::Matching(Filter::default()),
            expect: None,
            held: HeldLetters::Refuse,
            request: None,
        };
        let planned = self.store.plan(&plan, &act()).await.unwrap();
        self.store.command(planned.id, OperationCommand::Run, &act()).await.unwrap()
    }

    fn conduct(&self) -> Shutdown {
        let (shutdown, store) = (Shutdown::default(), Arc::new(self.store.clone()));
        let stop = shutdown.clone();
        tokio::spawn(async move { Conductor::new(store, Arc::new(SystemClock)).run(stop).await });
        shutdown
    }

    async fn until(&self, replay: &Operation, fits: impl Fn(&Operation) -> bool) -> Operation {
        let looking = async {
            loop {
                let now = self.store.operation(replay.id).await.unwrap();
                if fits(&now) {
                    return now;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("the operation reaches the state in time")
    }
}

fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

fn act() -> AuditedAction {
    AuditedAction {
        actor: "test".to_owned(),
        address: "here".to_owned(),
        verb: Verb::Replay,
        target: "all".to_owned(),
        reason: "mended".to_owned(),
    }
}

#[tokio::test]
async fn a_replay_goes_on_to_its_end_and_ends_when_every_outcome_is_known() {
    let lab = Lab::with_dead(1_200).await;
    let replay = lab.replay(0, None).await;
    let _shutdown = lab.conduct();
    lab.until(&replay, |it| it.done == 1_200).await;
    assert_eq!(lab.store.operation(replay.id).await.unwrap().state, OperationState::Running);
    assert_eq!(lab.settle(2_000, &Settlement::Complete).await, 1_200);
    let ended = lab.until(&replay, |it| it.state == OperationState::Ended).await;
    assert_eq!((ended.completed, ended.failed), (1_200, 0));
}

#[tokio::test]
async fn the_rest_waits_for_the_canary() {
    let lab = Lab::with_dead(10).await;
    let replay = lab.replay(3, None).await;
    let _shutdown = lab.conduct();
    lab.until(&replay, |it| it.done == 3).await;
    assert_eq!(lab.settle(2, &Settlement::Complete).await, 2);
    tokio::time::sleep(Duration::from_millis(300)).await; // nothing must happen, and there is no signal for that
    assert_eq!(lab.store.operation(replay.id).await.unwrap().done, 3);
    lab.settle(1, &Settlement::Complete).await;
    lab.until(&replay, |it| it.done == 10).await;
}

#[tokio::test]
async fn a_rate_is_kept() {
    let lab = Lab::with_dead(60).await;
    let replay = lab.replay(0, Some(100.0)).await;
    let (started, _shutdown) = (Instant::now(), lab.conduct());
    lab.until(&replay, |it| it.done == 60).await;
    // 60 messages at 100 per second, minus the burst.
    assert!(started.elapsed() >= Duration::from_millis(350), "{:?}", started.elapsed());
}

#[tokio::test]
async fn another_program_goes_on_where_one_ended() {
    let lab = Lab::with_dead(40).await;
    let replay = lab.replay(0, Some(50.0)).await;
    let shutdown = lab.conduct();
    let before = lab.until(&replay, |it| it.done >= 5).await;
    shutdown.drain();
    let Lab { store, folder } = lab;
    drop(store);
    let store = SqliteTransport::open(Options::new(folder.path().join("lab.db"))).unwrap();
    let lab = Lab { store, folder };
    let _shutdown = lab.conduct();
    let after = lab.until(&replay, |it| it.done == 40).await;
    assert!(before.done < 40);
    assert_eq!(after.total, 40);
    assert_eq!(lab.settle(100, &Settlement::Complete).await, 40);
}

#[tokio::test]
async fn what_is_too_old_is_removed_after_a_warning_and_written_down() {
    let lab = Lab::with_dead(3).await;
    let (day, keep) = (Duration::from_secs(86_400), Duration::from_secs(10 * 86_400));
    let retention = Retention { keep, warn: 2 * day };
    let (all, first) = (Filter::default(), ListRequest { after: None, limit: 1 });
    let died = lab.store.list(&all, &first).await.unwrap()[0].died_at;
    let look = async |days: u32| {
        let now = died
            + jiff::SignedDuration::try_from(day * days).unwrap()
            + jiff::SignedDuration::from_secs(60);
        let seen = retention.look(&lab.store, now).await.unwrap();
        (seen.soon.count, seen.removed)
    };
    assert_eq!(look(7).await, (0, 0));
    assert_eq!(look(9).await, (3, 0));
    assert_eq!(look(11).await, (0, 3));
}

#[tokio::test]
async fn nothing_is_removed_that_was_not_announced_long_enough_before() {
    let lab = Lab::with_dead(3).await;
    let (all, first) = (Filter::default(), ListRequest { after: None, limit: 1 });
    let died = lab.store.list(&all, &first).await.unwrap()[0].died_at;
    let day = Duration::from_secs(86_400);
    let retention = Retention { keep: 10 * day, warn: 2 * day };
    let look = async |hours: i64| {
        let now = died + jiff::SignedDuration::from_hours(hours);
        let seen = retention.look(&lab.store, now).await.unwrap();
        (seen.soon.count, seen.removed)
    };
    // No check ran for a month: overdue letters are announced first, and removed two days later.
    assert_eq!(look(30 * 24).await, (3, 0));
    assert_eq!(look(30 * 24 + 47).await, (3, 0));
    assert_eq!(look(30 * 24 + 49).await, (0, 3));
    let (log, _) = lab.store.audit(0, 10).await.unwrap();
    assert_eq!(log.last().unwrap().verb, "expire");
}
