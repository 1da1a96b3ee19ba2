//! What a worker does when its surroundings fail: each of these once went wrong.

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
    Bezoar, Clock, Context, DeadLetterAccess, DeadLetterPage, Depth, Event, Failure, Gate, Host,
    Message, MessageId, MessageType, Observer, Outgoing, Postpone, QueueAdmin, QueueName, Reason,
    RetryPolicy, Router, Shutdown, State, Worker,
    memory::{MemoryTransport, Options},
    testing::{Harness, VirtualClock},
};
use bezoar_conformance::{Fault, Faulty, Step};
use tokio::{sync::Notify, task::JoinHandle};

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

async fn send(memory: &MemoryTransport, id: &str) {
    let time = bezoar::SystemClock.now();
    let message =
        Message::new(MessageId::new(id).unwrap(), MessageType::new("result").unwrap(), time, "1");
    let sent = bezoar::Transport::send(memory, &lab().into(), &[Outgoing::from(message)]).await;
    sent.into_iter().map(Result::unwrap).for_each(drop);
}

async fn until_idle(memory: &MemoryTransport) {
    for _ in 0..10_000 {
        let Depth { ready, delayed, leased, .. } = memory.depth(&lab()).await.unwrap();
        if [ready, delayed, leased] == [Some(0); 3] {
            return;
        }
        tokio::time::sleep(SECOND).await;
    }
    panic!("never idle: {:?}", memory.depth(&lab()).await);
}

/// Handlers of a process that one message kills. `died` is rung by that message.
#[derive(Debug, Clone, Default)]
struct Fate {
    died: Arc<Notify>,
    done: Arc<Mutex<Vec<String>>>,
}

async fn live_dangerously(State(fate): State<Fate>, id: MessageId) {
    if id.as_str() == "killer" {
        fate.died.notify_one();
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(SECOND).await;
    fate.done.lock().unwrap().push(id.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_process_is_set_aside_alone() {
    let (memory, fate) = (memory().await, Fate::default());
    for number in 0..4 {
        send(&memory, &format!("before-{number}")).await;
    }
    send(&memory, "killer").await;
    for number in 0..4 {
        send(&memory, &format!("after-{number}")).await;
    }
    for _ in 0..5 {
        let process = start(&memory, dangerous(&fate));
        fate.died.notified().await;
        process.abort();
        let _ = process.await;
    }
    let process = start(&memory, dangerous(&fate));
    until_idle(&memory).await;
    process.abort();

    let dead = memory.dead_letters(&lab(), DeadLetterPage::default()).await.unwrap();
    let [killer] = &dead[..] else { panic!("only the killer: {dead:?}") };
    assert_eq!(killer.message.id.as_str(), "killer");
    assert_eq!(*killer.reason.code(), Reason::MAX_DELIVERIES);
    assert_eq!(fate.done.lock().unwrap().len(), 8, "all others were handled");
}

fn dangerous(fate: &Fate) -> Worker {
    let router = Router::with_state(fate.clone()).on("result", live_dangerously);
    Worker::new("lab", router).unwrap().fetch_loops(2).lease(10 * SECOND)
}

fn start(memory: &MemoryTransport, worker: Worker) -> JoinHandle<Result<(), bezoar::RunError>> {
    tokio::spawn(Host::new().worker(Arc::new(memory.clone()), worker).run(Shutdown::default()))
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_is_not_done_again_while_its_outcome_cannot_be_stored() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let memory = memory().await;
    send(&memory, "m").await;
    let failures = Arc::new(AtomicU32::new(0));
    let plan = move |operation: bezoar_conformance::Operation| {
        let fails = operation.step == Step::Settle && failures.fetch_add(1, Ordering::SeqCst) < 20;
        if fails { Fault::Before } else { Fault::None }
    };
    let faulty = Faulty::new(Arc::new(memory.clone()), Arc::new(plan));
    let handler = || async {
        RUNS.fetch_add(1, Ordering::SeqCst);
    };
    let worker = Worker::new("lab", Router::new().on("result", handler)).unwrap().lease(3 * SECOND);
    let host = Host::new().worker(Arc::new(faulty), worker);
    let running = tokio::spawn(host.run(Shutdown::default()));
    until_idle(&memory).await;
    running.abort();
    assert_eq!(RUNS.load(Ordering::SeqCst), 1, "its lease was held until the outcome was stored");
    assert_eq!(memory.depth(&lab()).await.unwrap().dead, Some(0));
}

/// In real time: what blocks a thread takes none of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_before_it_waits_keeps_its_lease() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let memory = MemoryTransport::new(Options::default());
    memory.provision(&lab()).await.unwrap();
    send(&memory, "m").await;
    let handler = || async {
        RUNS.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(3_500));
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    };
    let worker = Worker::new("lab", Router::new().on("result", handler)).unwrap().lease(5 * SECOND);
    let running = start(&memory, worker);
    until_idle(&memory).await;
    running.abort();
    assert_eq!(RUNS.load(Ordering::SeqCst), 1, "its lease was renewed as soon as it waited");
}

#[derive(Debug)]
struct Clumsy;

impl Observer for Clumsy {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        if let Event::Completed = event {
            std::panic::panic_any("clumsy");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_stops_nothing() {
    let worker = Worker::new("lab", Router::new().on("result", || async {})).unwrap();
    let lab = Harness::start(worker.observer(Arc::new(Clumsy))).await;
    for value in 0..50 {
        lab.send("result", &value).await;
    }
    lab.until_idle().await;
    assert!(lab.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_try_that_failed_counts_even_if_the_next_one_is_postponed() {
    let calls = Arc::new(AtomicU32::new(0));
    let service = tower::service_fn(move |_: Context| {
        let failing = calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        async move {
            let failed: tower::BoxError = bezoar::FailureError(Failure::transient("down")).into();
            let postponed: tower::BoxError = Postpone(SECOND).into();
            Err::<(), _>(if failing { failed } else { postponed })
        }
    });
    let worker = Worker::new("lab", service).unwrap().immediate_retries(1);
    let lab = Harness::start(worker.policy(RetryPolicy::jobs())).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.reason.to_string(), "max retries (3) exhausted");
}

#[derive(Debug, Default)]
struct Valve(AtomicBool);

#[async_trait::async_trait]
impl Gate for Valve {
    async fn admit(&self, free: NonZeroU32) -> NonZeroU32 {
        while !self.is_open() {
            tokio::time::sleep(SECOND).await;
        }
        free
    }

    fn is_open(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_closes_while_the_queue_is_empty_holds() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let (memory, gate) = (memory().await, Arc::new(Valve::default()));
    let handler = || async {
        RUNS.fetch_add(1, Ordering::SeqCst);
    };
    let worker =
        Worker::new("lab", Router::new().on("result", handler)).unwrap().gate(gate.clone());
    let running = start(&memory, worker);
    tokio::time::sleep(5 * SECOND).await; // the worker waits for a message by now
    gate.0.store(true, Ordering::SeqCst);
    send(&memory, "m").await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(RUNS.load(Ordering::SeqCst), 0);
    gate.0.store(false, Ordering::SeqCst);
    until_idle(&memory).await;
    running.abort();
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_limit_is_no_time_of_the_handler() {
    let handler = || async { tokio::time::sleep(5 * SECOND).await };
    let worker = Worker::new("lab", Router::new().on("result", handler)).unwrap();
    let limit = tower::limit::ConcurrencyLimitLayer::new(4);
    let lab = Harness::start(worker.layer(limit).concurrency(64).timeout(30 * SECOND)).await;
    for value in 0..300 {
        lab.send("result", &value).await;
    }
    lab.until_idle().await;
    assert!(lab.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn hosts_that_stop_together_have_their_own_grace_periods() {
    let (memory, shutdown) = (memory().await, Shutdown::default());
    let other = QueueName::new("other").unwrap();
    memory.provision(&other).await.unwrap();
    let bezoar = Bezoar::new(memory.clone());
    bezoar.send("lab", "result", &1).await.unwrap();
    bezoar.send("other", "result", &1).await.unwrap();
    let handler = || async { tokio::time::sleep(20 * SECOND).await };
    let host = |queue, grace| {
        let worker = Worker::new(queue, Router::new().on("result", handler)).unwrap();
        let host = Host::new().grace(grace).worker(Arc::new(memory.clone()), worker);
        tokio::spawn(host.run(shutdown.clone()))
    };
    let (short, long) = (host("lab", SECOND), host("other", 60 * SECOND));
    tokio::time::sleep(SECOND).await;
    shutdown.drain();
    short.await.unwrap().unwrap();
    long.await.unwrap().unwrap();
    assert_eq!(memory.depth(&lab()).await.unwrap().ready, Some(1), "handed back");
    assert_eq!(memory.depth(&other).await.unwrap().ready, Some(0), "finished");
}
