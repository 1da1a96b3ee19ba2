//! A worker answers for each delivery from the moment it is received until its outcome is stored.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batches;
mod limits;
mod quarantine;
mod scripted;
mod settling;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    task,
    time::Duration,
};

use bezoar::{
    Bezoar, Body, Context, DeadLetterAccess, ErrorKind, Event, Failure, Host, Message, MessageId,
    MessageType, Observer, Outgoing, QueueAdmin, QueueName, Router, Shutdown, State, Transport,
    TransportError, Worker,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tower::{BoxError, Service};

use bezoar_conformance::Intercepted;
use scripted::{Answer, Scripted, lab};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);

/// When each message's handler began and ended.
#[derive(Debug, Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, Vec<Span>>>>);

type Span = (Instant, Option<Instant>);

impl Runs {
    fn begin(&self, id: &MessageId) -> Run {
        let mut runs = self.0.lock().unwrap();
        let runs = runs.entry(id.to_string()).or_default();
        runs.push((Instant::now(), None));
        Run { runs: self.clone(), id: id.to_string(), number: runs.len() - 1 }
    }

    fn of(&self, id: &str) -> Vec<Span> {
        self.0.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    fn count(&self, id: &str) -> usize {
        self.of(id).len()
    }
}

/// A handler at work; dropped when it ends or is stopped.
struct Run {
    runs: Runs,
    id: String,
    number: usize,
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut runs = self.runs.0.lock().unwrap();
        runs.get_mut(&self.id).unwrap()[self.number].1 = Some(Instant::now());
    }
}

async fn send(transport: &Scripted, ids: &[&str]) {
    for id in ids {
        send_body(transport, id, Body::default()).await;
    }
}

async fn send_body(transport: &Scripted, id: &str, body: Body) {
    let time = bezoar::Clock::now(&*transport.clock);
    let id = MessageId::new(id).unwrap();
    let message = Message::new(id, MessageType::new("result").unwrap(), time, body);
    let sent = transport.memory.send(&(&lab()).into(), &[Outgoing::from(message)]).await;
    sent.into_iter().map(Result::unwrap).for_each(drop);
}

/// A worker whose handlers take as long as the number after `-` in the message's id says, in seconds, and then
/// fail if it begins with `bad`.
fn worker(transport: &Scripted, runs: &Runs) -> Worker {
    async fn handle(State(runs): State<Runs>, context: Context) -> Result<(), Failure> {
        let id = context.message.id.as_str();
        let run = runs.begin(&context.message.id);
        let seconds = id.rsplit_once('-').and_then(|(_, it)| it.parse().ok()).unwrap_or(0.0);
        sleep(Duration::from_secs_f64(seconds)).await;
        drop(run);
        if id.starts_with("bad") { Err(Failure::transient("bad")) } else { Ok(()) }
    }
    let router = Router::with_state(runs.clone()).on("result", handle);
    let worker = Worker::new("lab", router).unwrap();
    worker.lease(LEASE).deterministic(transport.clock.clone(), 1)
}

struct Running {
    shutdown: Shutdown,
    host: JoinHandle<Result<(), bezoar::RunError>>,
}

impl Running {
    async fn stop(self) {
        self.shutdown.drain();
        self.host.await.unwrap().unwrap();
    }
}

fn run(transport: &Scripted, worker: Worker) -> Running {
    let shutdown = Shutdown::default();
    let host = Host::new().grace(SECOND).worker(Arc::new(Intercepted(transport.clone())), worker);
    Running { host: tokio::spawn(host.run(shutdown.clone())), shutdown }
}

async fn is_empty(transport: &Scripted) -> bool {
    let depth = transport.memory.depth(&lab()).await.unwrap();
    [depth.ready, depth.delayed, depth.leased] == [Some(0); 3]
}

async fn until_empty(transport: &Scripted) {
    let empty = async {
        while !is_empty(transport).await {
            sleep(SECOND / 10).await;
        }
    };
    timeout(1_000 * SECOND, empty).await.expect("the queue should be empty in the end");
}

/// What went wrong until now, and whether it is over.
#[derive(Debug, Default)]
struct Trouble(Mutex<Vec<Option<ErrorKind>>>);

impl Observer for Trouble {
    fn message(&self, _: &QueueName, _: &Message, _: &Event<'_>) {}

    fn paused(&self, _: &QueueName, error: &TransportError, _: Duration) {
        self.0.lock().unwrap().push(Some(error.kind.clone()));
    }

    fn resumed(&self, _: &QueueName) {
        self.0.lock().unwrap().push(None);
    }
}

#[tokio::test(start_paused = true)]
async fn finished_work_keeps_its_lease_while_outcomes_cannot_be_stored() {
    let mut transport = Scripted::new().await;
    let (runs, start) = (Runs::default(), Instant::now());
    transport.settle = Arc::new(move |_| match start.elapsed() < 3 * LEASE {
        true => Answer::Refused(ErrorKind::Unavailable),
        false => Answer::Works,
    });
    send(&transport, &["m-0", "m-2", "m-3", "m-8"]).await;
    let running = run(&transport, worker(&transport, &runs));
    until_empty(&transport).await;
    for id in ["m-0", "m-2", "m-3", "m-8"] {
        assert_eq!(runs.count(id), 1, "{id} was handled twice");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_stopped_before_another_worker_has_its_message() {
    let mut transport = Scripted::new().await;
    let runs = Runs::default();
    let sound = transport.clone();
    transport.extend = Arc::new(|| Answer::Refused(ErrorKind::Unavailable));
    send(&transport, &["m-60"]).await;
    let unlucky = run(&transport, worker(&transport, &runs));
    sleep(SECOND).await;
    let other = run(&sound, worker(&sound, &runs));
    until_empty(&transport).await;
    let runs = runs.of("m-60");
    for pair in runs.windows(2) {
        assert!(pair[0].1.unwrap() <= pair[1].0, "two handlers had the message at once: {runs:?}");
    }
    assert!(runs.len() > 1, "the first worker loses its lease");
    for running in [unlucky, other] {
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_is_asked_for_again_and_keeps_nobody_waiting() {
    let mut transport = Scripted::new().await;
    let (runs, calls) = (Runs::default(), Arc::new(Mutex::new(0)));
    transport.extend = Arc::new(move || {
        *calls.lock().unwrap() += 1;
        if *calls.lock().unwrap() == 1 { Answer::Hangs } else { Answer::Works }
    });
    send(&transport, &["m-15"]).await;
    let running = run(&transport, worker(&transport, &runs));
    sleep(2 * SECOND).await;
    send(&transport, &["m-25"]).await;
    until_empty(&transport).await;
    assert_eq!(runs.count("m-15"), 1, "it was renewed by a second call");
    assert_eq!(runs.count("m-25"), 1, "it was renewed although the other renewal hangs");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn opening_a_queue_does_not_keep_a_worker_from_stopping() {
    let transport = Scripted { subscribe: Answer::Hangs, ..Scripted::new().await };
    let running = run(&transport, worker(&transport, &Runs::default()));
    sleep(SECOND).await;
    timeout(10 * SECOND, running.stop()).await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_closed_even_if_its_last_settlement_hangs() {
    let mut transport = Scripted::new().await;
    transport.settle = Arc::new(|_| Answer::Hangs);
    send(&transport, &["m-0"]).await;
    let running = run(&transport, worker(&transport, &Runs::default()));
    sleep(SECOND).await;
    timeout(60 * SECOND, running.stop()).await.expect("it stops");
    assert_eq!(transport.closed.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// A service that is not ready: for ever, or it panics.
#[derive(Debug, Clone, Copy)]
enum NeverReady {
    Waits,
    Panics,
}

impl Service<Context> for NeverReady {
    type Response = ();
    type Error = BoxError;
    type Future = std::future::Pending<Result<(), BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), BoxError>> {
        match self {
            Self::Waits => task::Poll::Pending,
            Self::Panics => panic!("staged"),
        }
    }

    fn call(&mut self, _: Context) -> Self::Future {
        std::future::pending()
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_holds_a_message_for_no_longer_than_the_timeout() {
    let transport = Scripted::new().await;
    send(&transport, &["m-0"]).await;
    let worker = Worker::new("lab", NeverReady::Waits).unwrap().timeout(5 * SECOND);
    let running = run(&transport, worker.deterministic(transport.clock.clone(), 1));
    sleep(30 * SECOND).await;
    running.stop().await;
    let bezoar = Bezoar::new(transport.memory.clone());
    let open = bezoar.transport().subscribe(&lab(), Default::default()).await.unwrap();
    let held = open.receive(1.try_into().unwrap(), SECOND * 10).await.unwrap();
    let ledger = &held[0].message.ledger;
    assert_eq!(ledger.failed, 0, "a layer that is not ready is no failure of the message");
    assert!(ledger.released > 1, "it was handed back again and again: {ledger:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_panics_before_it_is_ready_fails_the_attempt() {
    let transport = Scripted::new().await;
    send(&transport, &["m-0"]).await;
    let worker = Worker::new("lab", NeverReady::Panics).unwrap();
    let running = run(&transport, worker.deterministic(transport.clock.clone(), 1));
    until_empty(&transport).await;
    let dead = transport.memory.dead_letters(&lab(), Default::default()).await.unwrap();
    assert_eq!(dead[0].reason.to_string(), "max retries (3) exhausted");
    running.stop().await;
}
