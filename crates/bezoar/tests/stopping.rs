//! How a worker stops, and what it does in trouble.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar::{
    Bezoar, Capabilities, DeadLetterAccess, Delivery, ErrorKind, Event, Gate, Host, Message,
    Observer, QueueAdmin, QueueName, Router, Shutdown, SubscribeOptions, Subscription, Transport,
    TransportError, Worker,
    memory::{MemoryTransport, Options},
    testing::VirtualClock,
};
use bezoar_conformance::{Intercept, Intercepted};
use tokio::{sync::Notify, time::Instant};

const SECOND: Duration = Duration::from_secs(1);

fn lab() -> QueueName {
    QueueName::new("lab").unwrap()
}

async fn memory() -> MemoryTransport {
    let clock = Arc::new(VirtualClock::default());
    let memory = MemoryTransport::new(Options { clock, ..Options::default() });
    memory.provision(&lab()).await.unwrap();
    memory
}

async fn send(memory: &MemoryTransport) {
    Bezoar::new(memory.clone()).send("lab", "result", &1).await.unwrap();
}

/// A handler that says when it starts and then takes `takes`.
fn slow(started: &Arc<Notify>, takes: Duration) -> Worker {
    let started = started.clone();
    let handler = move || {
        let started = started.clone();
        async move {
            started.notify_one();
            tokio::time::sleep(takes).await;
        }
    };
    Worker::new("lab", Router::new().on("result", handler)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_waits_for_what_runs_and_takes_no_more() {
    let (memory, started, shutdown) =
        (memory().await, Arc::new(Notify::new()), Shutdown::default());
    send(&memory).await;
    let worker = slow(&started, 10 * SECOND);
    let running =
        tokio::spawn(Host::new().worker(Arc::new(memory.clone()), worker).run(shutdown.clone()));
    started.notified().await;
    shutdown.drain();
    send(&memory).await;
    running.await.unwrap().unwrap();
    let depth = memory.depth(&lab()).await.unwrap();
    assert_eq!(
        (depth.ready, depth.leased),
        (Some(1), Some(0)),
        "the first is done, the second untouched"
    );
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_period_messages_are_handed_back_without_an_attempt() {
    let (memory, started, shutdown) =
        (memory().await, Arc::new(Notify::new()), Shutdown::default());
    send(&memory).await;
    let host = Host::new()
        .grace(5 * SECOND)
        .worker(Arc::new(memory.clone()), slow(&started, 100 * SECOND));
    let running = tokio::spawn(host.run(shutdown.clone()));
    started.notified().await;
    let stopping = Instant::now();
    shutdown.drain();
    running.await.unwrap().unwrap();
    assert_eq!(stopping.elapsed(), 5 * SECOND);
    check_handed_back(&memory).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_word_stops_at_once() {
    let (memory, started, shutdown) =
        (memory().await, Arc::new(Notify::new()), Shutdown::default());
    send(&memory).await;
    let host = Host::new().worker(Arc::new(memory.clone()), slow(&started, 100 * SECOND));
    let running = tokio::spawn(host.run(shutdown.clone()));
    started.notified().await;
    let stopping = Instant::now();
    shutdown.drain();
    shutdown.abort();
    running.await.unwrap().unwrap();
    assert_eq!(stopping.elapsed(), Duration::ZERO);
    check_handed_back(&memory).await;
}

async fn check_handed_back(memory: &MemoryTransport) {
    let subscription = memory.subscribe(&lab(), SubscribeOptions::default()).await.unwrap();
    let [delivery] = &subscription.receive(NonZeroU32::MIN, Duration::ZERO).await.unwrap()[..]
    else {
        panic!("it is ready again")
    };
    let ledger = &delivery.message.ledger;
    assert_eq!((ledger.acquired, ledger.failed, ledger.released), (2, 0, 1));
    assert!(delivery.redelivered, "its handler had begun");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_process_is_set_aside_and_its_neighbour_is_not() {
    let memory = memory().await;
    send(&memory).await;
    // Five processes take it and die: the lease runs out each time.
    let options = SubscribeOptions::default().with_lease(SECOND);
    for _ in 0..5 {
        let subscription = memory.subscribe(&lab(), options).await.unwrap();
        let taken = subscription.receive(NonZeroU32::MIN, 2 * SECOND).await.unwrap();
        assert_eq!(taken.len(), 1);
        tokio::time::sleep(2 * SECOND).await;
    }
    send(&memory).await;
    let (started, shutdown) = (Arc::new(Notify::new()), Shutdown::default());
    let worker = slow(&started, Duration::ZERO);
    let running =
        tokio::spawn(Host::new().worker(Arc::new(memory.clone()), worker).run(shutdown.clone()));
    started.notified().await;
    shutdown.drain();
    running.await.unwrap().unwrap();
    let depth = memory.depth(&lab()).await.unwrap();
    assert_eq!((depth.ready, depth.dead), (Some(0), Some(1)));
    let dead = memory.dead_letters(&lab(), Default::default()).await.unwrap();
    assert_eq!(dead[0].reason.to_string(), "delivered 5 times without an outcome");
    assert_eq!(dead[0].message.ledger.failed, 0);
}

/// A transport that is out of reach while told so.
#[derive(Debug, Clone)]
struct Unreliable {
    inner: MemoryTransport,
    down: Arc<AtomicBool>,
    wakes: bool,
    looks: Arc<AtomicU32>,
}

impl Unreliable {
    async fn new(wakes: bool) -> Self {
        Self { inner: memory().await, down: Arc::default(), wakes, looks: Arc::default() }
    }

    fn check(&self) -> Result<(), TransportError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) {
            return Err(TransportError::new(ErrorKind::Unavailable, "unreliable", "receive"));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Intercept for Unreliable {
    fn inner(&self) -> &dyn Transport {
        &self.inner
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.wakes = self.wakes;
        capabilities
    }

    async fn receive(
        &self,
        inner: &dyn Subscription,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        self.check()?;
        inner.receive(max, wait).await
    }
}

#[derive(Debug, Default)]
struct Diary {
    pauses: Mutex<Vec<Duration>>,
    resumed: Notify,
    completed: Notify,
}

impl Observer for Diary {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        if let Event::Completed = event {
            self.completed.notify_one();
        }
    }

    fn paused(&self, _: &QueueName, error: &TransportError, wait: Duration) {
        assert_eq!(error.kind, ErrorKind::Unavailable);
        self.pauses.lock().unwrap().push(wait);
    }

    fn resumed(&self, _: &QueueName) {
        self.resumed.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_transport_pauses_with_backoff_and_fails_no_message() {
    let (transport, diary, shutdown) =
        (Unreliable::new(true).await, Arc::new(Diary::default()), Shutdown::default());
    transport.down.store(true, Ordering::SeqCst);
    let worker = slow(&Arc::new(Notify::new()), Duration::ZERO).observer(diary.clone());
    let running = tokio::spawn(
        Host::new().worker(Arc::new(Intercepted(transport.clone())), worker).run(shutdown.clone()),
    );
    tokio::time::sleep(300 * SECOND).await;
    send(&transport.inner).await;
    transport.down.store(false, Ordering::SeqCst);
    diary.resumed.notified().await;
    diary.completed.notified().await;
    shutdown.drain();
    running.await.unwrap().unwrap();

    let pauses = diary.pauses.lock().unwrap().clone();
    assert_eq!(pauses[..4], [100, 200, 400, 800].map(Duration::from_millis));
    assert_eq!(pauses.last(), Some(&(30 * SECOND)));
    let depth = transport.inner.depth(&lab()).await.unwrap();
    assert_eq!((depth.ready, depth.leased, depth.dead), (Some(0), Some(0), Some(0)));
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_that_does_not_wake_us_is_looked_into_less_and_less() {
    let (transport, shutdown) = (Unreliable::new(false).await, Shutdown::default());
    let diary = Arc::new(Diary::default());
    let worker = slow(&Arc::new(Notify::new()), Duration::ZERO).observer(diary.clone());
    let running = tokio::spawn(
        Host::new().worker(Arc::new(Intercepted(transport.clone())), worker).run(shutdown.clone()),
    );
    tokio::time::sleep(Duration::from_millis(62_500)).await;
    // At 0, 1, 3, 7 and then every 5 s: 12, 17 … 62.
    assert_eq!(transport.looks.load(Ordering::SeqCst), 15);
    let sent = Instant::now();
    send(&transport.inner).await;
    diary.completed.notified().await;
    assert!(sent.elapsed() <= 5 * SECOND);
    shutdown.drain();
    running.await.unwrap().unwrap();
}

#[derive(Debug, Default)]
struct Closed {
    open: AtomicBool,
    opened: Notify,
}

#[async_trait::async_trait]
impl Gate for Closed {
    async fn admit(&self, _: NonZeroU32) -> NonZeroU32 {
        while !self.open.load(Ordering::SeqCst) {
            self.opened.notified().await;
        }
        NonZeroU32::MIN
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_while_the_gate_is_closed() {
    let (memory, started, shutdown) =
        (memory().await, Arc::new(Notify::new()), Shutdown::default());
    send(&memory).await;
    let gate = Arc::new(Closed::default());
    let worker = slow(&started, Duration::ZERO).gate(gate.clone());
    let running =
        tokio::spawn(Host::new().worker(Arc::new(memory.clone()), worker).run(shutdown.clone()));
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(memory.depth(&lab()).await.unwrap().ready, Some(1));
    gate.open.store(true, Ordering::SeqCst);
    gate.opened.notify_one();
    started.notified().await;
    shutdown.drain();
    running.await.unwrap().unwrap();
    assert_eq!(memory.depth(&lab()).await.unwrap().ready, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_postponed_message_returns_later_without_an_attempt() {
    let (memory, shutdown) = (memory().await, Shutdown::default());
    send(&memory).await;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let done = Arc::new(Notify::new());
    let service = tower::service_fn({
        let done = done.clone();
        move |context: bezoar::Context| {
            let done = done.clone();
            async move {
                if CALLS.fetch_add(1, Ordering::SeqCst) == 0 {
                    return Err(bezoar::Postpone(60 * SECOND));
                }
                let ledger = &context.message.ledger;
                assert_eq!((ledger.acquired, ledger.released, ledger.failed), (2, 1, 0));
                done.notify_one();
                Ok(())
            }
        }
    });
    let (worker, start) = (Worker::new("lab", service).unwrap(), Instant::now());
    let running =
        tokio::spawn(Host::new().worker(Arc::new(memory.clone()), worker).run(shutdown.clone()));
    done.notified().await;
    assert_eq!(start.elapsed(), 60 * SECOND);
    shutdown.drain();
    running.await.unwrap().unwrap();
}
