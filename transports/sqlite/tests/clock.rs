//! Leases and a clock that is set forward, or read too early.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bezoar_core::{
    Clock, Delivery, Message, MessageId, MessageType, Outgoing, QueueAdmin, QueueName, Settlement,
    SubscribeOptions, Subscription, Transport, millis, to_millis,
};
use bezoar_sqlite::{Options, SqliteTransport};
use jiff::Timestamp;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

/// A clock whose time of day can be set without time passing.
#[derive(Debug)]
struct Watch {
    time_of_day: AtomicI64,
    passed: AtomicI64,
}

impl Watch {
    fn new() -> Arc<Self> {
        let time_of_day = AtomicI64::new(1_700_000_000_000);
        Arc::new(Self { time_of_day, passed: AtomicI64::new(0) })
    }

    fn set_forward(&self, by: Duration) {
        self.time_of_day.fetch_add(to_millis(by), Ordering::SeqCst);
    }

    fn pass(&self, time: Duration) {
        self.set_forward(time);
        self.passed.fetch_add(to_millis(time), Ordering::SeqCst);
    }
}

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        millis(self.time_of_day.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::SeqCst).unsigned_abs())
    }
}

struct Lab {
    watch: Arc<Watch>,
    transport: SqliteTransport,
    folder: tempfile::TempDir,
}

impl Lab {
    async fn open() -> Self {
        let (watch, folder) = (Watch::new(), tempfile::tempdir().unwrap());
        let options = Options::new(folder.path().join("bezoar.db"));
        let transport = SqliteTransport::open(Options { clock: watch.clone(), ..options }).unwrap();
        transport.provision(&queue()).await.unwrap();
        Self { watch, transport, folder }
    }

    async fn send(&self, id: &str, delay: Duration) {
        let (id, of) = (MessageId::new(id).unwrap(), MessageType::new("result").unwrap());
        let message = Message::new(id, of, self.watch.now(), "");
        let outgoing = Outgoing::from(message).after(delay);
        self.transport.send(&queue().into(), &[outgoing]).await.remove(0).unwrap();
    }

    async fn subscribe(&self) -> Box<dyn Subscription> {
        let options = SubscribeOptions::default().with_lease(LEASE);
        self.transport.subscribe(&queue(), options).await.unwrap()
    }
}

fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

async fn receive(worker: &dyn Subscription) -> Vec<Delivery> {
    worker.receive(NonZeroU32::new(16).unwrap(), Duration::ZERO).await.unwrap()
}

#[tokio::test]
async fn a_clock_that_is_set_forward_ends_no_lease() {
    let lab = Lab::open().await;
    let (worker, other) = (lab.subscribe().await, lab.subscribe().await);
    for id in ["completed", "renewed", "lost"] {
        lab.send(id, Duration::ZERO).await;
    }
    lab.send("due in an hour", HOUR).await;
    let mut held = receive(&*worker).await;
    assert_eq!(held.len(), 3);
    lab.watch.pass(SECOND);
    lab.watch.set_forward(8 * HOUR);
    let due = receive(&*other).await;
    let ids: Vec<_> = due.iter().map(|it| it.message.id.as_str()).collect();
    assert_eq!(ids, ["due in an hour"], "leases stay valid, and a due message is delivered");
    for (worker, delivery) in [(&other, due.into_iter().next()), (&worker, Some(held.remove(0)))] {
        let completed = (delivery.unwrap(), Settlement::Complete);
        worker.settle(vec![completed]).await.remove(0).unwrap();
    }
    lab.watch.pass(LEASE - 2 * SECOND);
    worker.extend(&mut held[..1], LEASE).await.remove(0).unwrap();
    assert!(receive(&*other).await.is_empty(), "the lease keeps its remaining time");
    lab.watch.pass(2 * SECOND);
    let lost = receive(&*other).await;
    assert_eq!(lost.len(), 1, "then the lease expires");
    assert_eq!(lost[0].message.id.as_str(), "lost");
}

#[tokio::test]
async fn leases_of_other_processes_survive_a_step_of_the_clock_too() {
    let lab = Lab::open().await;
    for id in ["a", "b"] {
        lab.send(id, Duration::ZERO).await;
    }
    let options = Options::new(lab.folder.path().join("bezoar.db"));
    let second = SqliteTransport::open(Options { clock: lab.watch.clone(), ..options }).unwrap();
    let options = SubscribeOptions::default().with_lease(LEASE);
    let (first, worker) =
        (lab.subscribe().await, second.subscribe(&queue(), options).await.unwrap());
    let mut held = receive(&*worker).await;
    assert_eq!(held.len(), 2);
    lab.watch.set_forward(8 * HOUR);
    // The first process notices, and moves the leases of the second.
    assert!(receive(&*first).await.is_empty(), "both are leased to the other process");
    worker.extend(&mut held[..1], LEASE).await.remove(0).unwrap();
    for delivery in held {
        worker.settle(vec![(delivery, Settlement::Complete)]).await.remove(0).unwrap();
    }
}

#[tokio::test]
async fn a_lease_begins_when_the_write_lock_is_held() {
    let lab = Lab::open().await;
    lab.send("m", Duration::ZERO).await;
    let worker = lab.subscribe().await;
    let neighbour = rusqlite::Connection::open(lab.folder.path().join("bezoar.db")).unwrap();
    neighbour.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claim = tokio::spawn(async move { receive(&*worker).await });
    tokio::time::sleep(SECOND / 2).await; // until the claim waits for the lock
    lab.watch.pass(2 * LEASE);
    neighbour.execute_batch("ROLLBACK").unwrap();
    let held = claim.await.unwrap();
    let until = held[0].lease_until.unwrap();
    assert_eq!(until, lab.watch.now() + LEASE, "the lease must start when the lock is acquired");
}
