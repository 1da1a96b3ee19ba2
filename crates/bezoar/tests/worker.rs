//! What a worker promises, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar::{
    AttemptNumber, Backoff, Code, Context, Failure, FailureKind, FromRef, Headers, Jitter, Json,
    Message, MessageId, MessageType, RetryPolicy, Router, State, Worker, testing::Harness,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// What a test notes in handlers and reads afterwards. Clones are the same.
#[derive(Debug, Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn worker<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Worker {
    let exact = Backoff::Exponential { first: SECOND, multiplier: 2.0 };
    let policy = RetryPolicy::new(3, exact, 30 * SECOND, Jitter::None).unwrap();
    Worker::new("lab", router).unwrap().policy(policy)
}

fn message(body: &'static str) -> Message {
    let time = bezoar::Clock::now(&bezoar::SystemClock);
    Message::new(MessageId::new("m-1").unwrap(), MessageType::new("result").unwrap(), time, body)
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_body_state_and_attempt_as_parameters() {
    async fn handler(
        Json(value): Json<f64>,
        State(notes): State<Notes>,
        AttemptNumber(attempt): AttemptNumber,
        id: MessageId,
        context: Context,
    ) {
        notes.add(format!("{value} {attempt} {} {}", context.message.id == id, context.queue));
    }
    let notes = Notes::default();
    let lab = Harness::start(worker(Router::with_state(notes.clone()).on("result", handler))).await;
    lab.send("result", &14.1).await;
    lab.until_idle().await;
    assert_eq!(notes.all(), ["14.1 1 true lab"]);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_state_is_enough() {
    #[derive(Clone)]
    struct App {
        notes: Notes,
    }
    impl FromRef<App> for Notes {
        fn from_ref(app: &App) -> Self {
            app.notes.clone()
        }
    }
    async fn handler(State(notes): State<Notes>, headers: Headers) {
        notes.add(headers["ward"].reveal().as_str());
    }
    let app = App { notes: Notes::default() };
    let lab = Harness::start(worker(Router::with_state(app.clone()).on("result", handler))).await;
    lab.send_message(message("").with_header("ward", "7b")).await;
    lab.until_idle().await;
    assert_eq!(app.notes.all(), ["7b"]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_after_the_policys_delays_and_then_set_aside() {
    let start = Instant::now();
    let notes = Notes::default();
    let handler = |State(notes): State<Notes>, AttemptNumber(attempt): AttemptNumber| async move {
        notes.add(format!("{attempt}"));
        Err::<(), _>(std::io::Error::other("no connection"))
    };
    let lab = Harness::start(worker(Router::with_state(notes.clone()).on("result", handler))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;

    assert_eq!(notes.all(), ["1", "2", "3", "4"]);
    assert_eq!(start.elapsed().as_secs(), 1 + 2 + 4);
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.reason.to_string(), "max retries (3) exhausted");
    let ledger = &dead.message.ledger;
    assert_eq!((ledger.failed, ledger.acquired, ledger.history().len()), (4, 4, 4));
    let last = ledger.last().unwrap();
    assert_eq!((last.attempt, last.kind), (4, FailureKind::Unknown));
    assert_eq!(last.detail.reveal(), "no connection");
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_set_aside_at_once() {
    let handler =
        || async { Err::<(), _>(Failure::permanent("no such patient").with_code(Code::UNKNOWN)) };
    let lab = Harness::start(worker(Router::new().on("result", handler))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.reason.to_string(), "non-retryable error: permanent");
    assert_eq!(dead.message.ledger.failed, 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_or_has_no_handler_is_set_aside_as_it_came() {
    let handler = |Json(_): Json<f64>| async {};
    let lab = Harness::start(worker(Router::new().on("result", handler))).await;
    lab.send_message(message("not JSON \u{1}")).await;
    lab.send("letter", &1).await;
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    let reasons: Vec<_> = dead.iter().map(|dead| dead.reason.to_string()).collect();
    assert_eq!(reasons, ["Failed to deserialize message", "no handler for this type of message"]);
    assert_eq!(dead[0].message.body.reveal().as_ref(), b"not JSON \x01");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_takes_the_other_types() {
    let notes = Notes::default();
    let fallback =
        |State(notes): State<Notes>, kind: MessageType| async move { notes.add(kind.as_str()) };
    let lab = Harness::start(worker(Router::with_state(notes.clone()).fallback(fallback))).await;
    lab.send("letter", &1).await;
    lab.until_idle().await;
    assert_eq!(notes.all(), ["letter"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_and_stops_nobody_else() {
    async fn handler(Json(value): Json<i32>, State(notes): State<Notes>) {
        assert!(value > 0, "CANARY");
        notes.add(value.to_string());
    }
    let notes = Notes::default();
    let lab = Harness::start(worker(Router::with_state(notes.clone()).on("result", handler))).await;
    lab.send("result", &0).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(notes.all(), ["1"]);
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.message.ledger.last().unwrap().code, Code::PANIC);
    assert!(!format!("{dead:?}").contains("CANARY"));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_cancelled_and_has_failed() {
    let handler = || async { tokio::time::sleep(3600 * SECOND).await };
    let worker = worker(Router::new().on("result", handler)).timeout(10 * SECOND);
    let lab = Harness::start(worker).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    let last = dead.message.ledger.last().unwrap();
    assert_eq!(
        (last.code.clone(), last.kind, last.duration),
        (Code::TIMEOUT, FailureKind::Transient, 10 * SECOND)
    );
}

#[tokio::test(start_paused = true)]
async fn immediate_retries_are_one_attempt_to_the_policy_and_each_is_in_the_history() {
    let handler = || async { Err::<(), _>(Failure::transient("busy")) };
    let worker = worker(Router::new().on("result", handler)).immediate_retries(3);
    let lab = Harness::start(worker.policy(RetryPolicy::jobs().with_max_retries(1))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    let places: Vec<_> =
        dead.message.ledger.history().iter().map(|it| (it.attempt, it.try_number)).collect();
    let expected: Vec<_> =
        (1..=2).flat_map(|number| (1..=4).map(move |tried| (number, tried))).collect();
    assert_eq!(places, expected);
    assert_eq!(dead.message.ledger.failed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_a_handler_runs() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let handler = || async {
        RUNS.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(100 * SECOND).await;
    };
    let worker = worker(Router::new().on("result", handler)).lease(9 * SECOND);
    let lab = Harness::start(worker.fetch_loops(2)).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(RUNS.load(Ordering::SeqCst), 1, "nobody else got it in 100 s");
    assert!(lab.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_a_time_than_loops_times_concurrency() {
    static NOW: AtomicU32 = AtomicU32::new(0);
    static MOST: AtomicU32 = AtomicU32::new(0);
    let handler = || async {
        MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(SECOND).await;
        NOW.fetch_sub(1, Ordering::SeqCst);
    };
    let worker = worker(Router::new().on("result", handler)).concurrency(3);
    let lab = Harness::start(worker.fetch_loops(2)).await;
    let start = Instant::now();
    for value in 0..12 {
        lab.send("result", &value).await;
    }
    lab.until_idle().await;
    assert_eq!(MOST.load(Ordering::SeqCst), 6);
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn any_tower_layer_goes_around_each_try() {
    let notes = Notes::default();
    let seen = notes.clone();
    let layer = tower::layer::layer_fn(move |inner| {
        let seen = seen.clone();
        tower::ServiceBuilder::new()
            .map_request(move |context: Context| {
                seen.add(format!("attempt {}", context.attempt));
                context
            })
            .service(inner)
    });
    let handler = |AttemptNumber(n): AttemptNumber| async move {
        if n < 2 { Err(Failure::transient("once")) } else { Ok(()) }
    };
    let worker = worker(Router::new().on("result", handler)).layer(layer);
    let lab = Harness::start(worker.layer(tower::timeout::TimeoutLayer::new(SECOND))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(notes.all(), ["attempt 1", "attempt 2"]);
    assert!(lab.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_its_kind_through_layers_that_make_errors_of_their_own() {
    let handler = || async { Err::<(), _>(Failure::permanent("no")) };
    let worker = worker(Router::new().on("result", handler));
    let lab = Harness::start(worker.layer(tower::timeout::TimeoutLayer::new(SECOND))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.message.ledger.last().unwrap().kind, FailureKind::Permanent);
}

#[tokio::test(start_paused = true)]
async fn a_replay_counts_anew_and_can_succeed() {
    static BROKEN: AtomicU32 = AtomicU32::new(1);
    let handler = || async {
        let broken = BROKEN.load(Ordering::SeqCst) == 1;
        if broken { Err(Failure::permanent("broken")) } else { Ok(()) }
    };
    let lab = Harness::start(worker(Router::new().on("result", handler))).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    BROKEN.store(0, Ordering::SeqCst);
    assert_eq!(lab.replay().await, 1);
    lab.until_idle().await;
    assert!(lab.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let start = Instant::now();
    let handler = |AttemptNumber(n): AttemptNumber| async move {
        if n == 1 { Err(Failure::transient("busy").with_retry_after(120 * SECOND)) } else { Ok(()) }
    };
    let worker = worker(Router::new().on("result", handler)).immediate_retries(5);
    let lab = Harness::start(worker).await;
    lab.send("result", &1).await;
    lab.until_idle().await;
    assert_eq!(start.elapsed(), 120 * SECOND, "not tried at once against the other side's word");
}
