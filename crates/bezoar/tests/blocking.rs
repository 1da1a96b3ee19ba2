//! Handlers that occupy their thread hold up no others: several messages are handled in one task only as long as that
//! costs nobody time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bezoar::{
    Bezoar, Event, Message, Observer, QueueAdmin, QueueName, Router, Shutdown, State, Worker,
    memory::{MemoryTransport, Options},
};
use tokio::task::block_in_place;

/// How long handlers wait for each other before the test has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A place where handlers wait, without giving up their thread, until `expected` of them are there.
#[derive(Debug)]
struct Meeting {
    expected: u32,
    present: Mutex<u32>,
    arrived: Condvar,
    /// Handlers for which not all came in time.
    alone: AtomicU32,
    shutdown: Shutdown,
}

impl Meeting {
    fn of(expected: u32) -> Arc<Self> {
        let (present, arrived, alone, shutdown) = Default::default();
        Arc::new(Self { expected, present, arrived, alone, shutdown })
    }

    fn attend(&self) {
        let mut present = self.present.lock().unwrap();
        *present += 1;
        self.arrived.notify_all();
        let missing = |present: &mut u32| *present < self.expected;
        let waited = self.arrived.wait_timeout_while(present, PATIENCE, missing).unwrap();
        self.alone.fetch_add(waited.1.timed_out().into(), Ordering::SeqCst);
        self.shutdown.drain();
    }
}

/// Runs `worker` on so many messages that were all sent before.
async fn run(worker: Worker, messages: u32, shutdown: Shutdown) {
    let memory = MemoryTransport::new(Options::default());
    memory.provision(&QueueName::new("lab").unwrap()).await.unwrap();
    let bezoar = Bezoar::new(memory);
    for number in 0..messages {
        bezoar.send("lab", "result", &number).await.unwrap();
    }
    bezoar.run_until(worker, shutdown).await.unwrap();
}

async fn check_all_meet(router: Router<Arc<Meeting>>, meeting: Arc<Meeting>) {
    let worker = Worker::new("lab", router).unwrap();
    run(worker, meeting.expected, meeting.shutdown.clone()).await;
    assert_eq!(meeting.alone.load(Ordering::SeqCst), 0, "some waited for others that did not run");
}

/// More than there are threads: a thread that a handler blocks this way is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_block_in_place_run_at_a_time() {
    let meeting = Meeting::of(12);
    let router = Router::with_state(meeting.clone());
    let handler =
        |State(meeting): State<Arc<Meeting>>| async move { block_in_place(|| meeting.attend()) };
    check_all_meet(router.on("result", handler), meeting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_compute_use_every_thread() {
    let meeting = Meeting::of(2);
    let router = Router::with_state(meeting.clone());
    let handler = |State(meeting): State<Arc<Meeting>>| async move { meeting.attend() };
    check_all_meet(router.on("result", handler), meeting).await;
}

/// On one thread.
#[tokio::test]
async fn handlers_that_wait_run_at_a_time() {
    let (all, shutdown) = (Arc::new(tokio::sync::Barrier::new(12)), Shutdown::default());
    let stop = shutdown.clone();
    let handler = move || {
        let (all, stop) = (all.clone(), stop.clone());
        async move {
            tokio::time::timeout(PATIENCE, all.wait()).await.unwrap();
            stop.drain();
        }
    };
    run(Worker::new("lab", Router::new().on("result", handler)).unwrap(), 12, shutdown).await;
}

/// The number of messages whose outcome is stored.
#[derive(Debug, Default)]
struct Stored(AtomicU32);

impl Observer for Stored {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        self.0.fetch_add(matches!(event, Event::Completed).into(), Ordering::SeqCst);
    }
}

/// On one thread: a handler gives way after it has computed, not only after all messages are handled.
#[tokio::test]
async fn outcomes_are_stored_while_other_messages_wait() {
    const MESSAGES: u32 = 16;
    let (stored, left, shutdown) =
        (Arc::<Stored>::default(), Arc::new(AtomicU32::new(MESSAGES)), Shutdown::default());
    let (seen, stop) = (Arc::new(AtomicU32::new(0)), shutdown.clone());
    let (note, look) = (seen.clone(), stored.clone());
    let handler = move || {
        let (begun, last) = (Instant::now(), left.fetch_sub(1, Ordering::SeqCst) == 1);
        while begun.elapsed() < Duration::from_millis(1) {}
        if last {
            note.store(look.0.load(Ordering::SeqCst), Ordering::SeqCst);
            stop.drain();
        }
        async {}
    };
    let worker = Worker::new("lab", Router::new().on("result", handler)).unwrap();
    run(worker.observer(stored.clone()), MESSAGES, shutdown).await;
    assert_eq!(stored.0.load(Ordering::SeqCst), MESSAGES);
    assert!(seen.load(Ordering::SeqCst) > 0, "none was stored before the last had run");
}
