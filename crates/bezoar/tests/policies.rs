//! Who decides about a failed message, and how the decision is logged; in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    Backoff, Code, CorrelationId, Decision, Event, Failure, FailureKind, Jitter, Ledger, Message,
    MessageId, MessageType, Observer, QueueName, Reason, RetryPolicy, RetryStrategy, Rng, Router,
    Worker, testing::Harness,
};
use serde_json::Value;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Stands for somebody's name.
const CANARY: &str = "Wellensittich";

/// Fails with the kind that is the message's type.
async fn fails(message_type: MessageType) -> Result<(), Failure> {
    let kind = message_type.as_str().parse().unwrap_or(FailureKind::Transient);
    Err(Failure::new(kind, CANARY).with_code(Code::from_static("db.down")))
}

fn worker() -> Worker {
    Worker::new("lab", Router::new().fallback(fails)).unwrap()
}

/// Delays of 2 s, 4 s and 8 s, exactly.
fn exact() -> RetryPolicy {
    let backoff = Backoff::Exponential { first: 2 * SECOND, multiplier: 2.0 };
    RetryPolicy::new(3, backoff, 30 * SECOND, Jitter::None).unwrap()
}

fn message(message_type: &str) -> Message {
    let (id, time) = (MessageId::new("m-1").unwrap(), bezoar::Clock::now(&bezoar::SystemClock));
    Message::new(id, MessageType::new(message_type).unwrap(), time, CANARY)
        .with_correlation_id(CorrelationId::new("c-7").unwrap())
}

/// The ledger of a message and the time that it took, once it is dead.
async fn until_dead(worker: Worker, message_type: &str) -> (Ledger, Duration) {
    let start = Instant::now();
    let lab = Harness::start(worker).await;
    lab.send_message(message(message_type)).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    (dead.message.ledger.clone(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_poison_queue_sets_aside_at_the_third_failure_without_a_last_wait() {
    let (ledger, took) = until_dead(worker().policy(RetryPolicy::poison_queue()), "x").await;
    assert_eq!((ledger.failed, ledger.history().len()), (3, 3));
    assert!((12 * MINUTE..=(12 * MINUTE).mul_f64(1.3) + SECOND).contains(&took), "{took:?}");
    let [first, second, third] = ledger.history() else { panic!() };
    for (before, after, minutes) in [(first, second, 4), (second, third, 8)] {
        let waited = after.started_at.duration_since(before.failed_at()).unsigned_abs();
        let d = minutes * MINUTE;
        assert!((d..=d.mul_f64(1.3) + SECOND).contains(&waited), "{minutes}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_broker_preset_tries_four_times_at_once_and_never_later() {
    let (ledger, took) = until_dead(worker().policy(RetryPolicy::broker()), "x").await;
    let tries: Vec<_> = ledger.history().iter().map(|it| (it.attempt, it.try_number)).collect();
    assert_eq!(tries, [(1, 1), (1, 2), (1, 3), (1, 4)]);
    assert!(took < SECOND, "{took:?}");

    let explicit = worker().policy(RetryPolicy::broker()).immediate_retries(1);
    assert_eq!(until_dead(explicit, "x").await.0.history().len(), 2, "the explicit number wins");
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_have_a_policy_of_its_own() {
    let worker = || {
        worker().policy(exact()).policy_for("lab.notice", RetryPolicy::jobs().with_max_retries(1))
    };
    assert_eq!(until_dead(worker(), "lab.notice").await.0.failed, 2);
    assert_eq!(until_dead(worker(), "lab.result").await.0.failed, 4);
    assert_eq!(worker().largest_delay(), 8 * SECOND);
    let longer = worker().policy_for("lab.report", RetryPolicy::webhook());
    assert_eq!(longer.largest_delay(), Duration::from_secs(36_000).mul_f64(1.1));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_decided_by_the_handlers_own_policy() {
    async fn hangs() {
        std::future::pending::<()>().await;
    }
    let worker = Worker::new("lab", Router::new().on("slow", hangs)).unwrap();
    let worker = worker
        .timeout(SECOND)
        .policy(exact())
        .policy_for("slow", RetryPolicy::jobs().with_max_retries(0));
    assert_eq!(until_dead(worker, "slow").await.0.failed, 1);
}

/// Gives up at the second failure.
#[derive(Debug)]
struct Twice;

impl RetryStrategy for Twice {
    fn decide(&self, ledger: &Ledger, failure: &Failure, _: &mut dyn Rng) -> Decision {
        assert!(failure.kind != FailureKind::AiService, "a strategy with a defect");
        match ledger.failed {
            0 => Decision::retry(ledger, 5 * SECOND),
            _ => Decision::dead_letter(ledger, Reason::new(Reason::EXHAUSTED, "twice is enough")),
        }
    }

    fn largest_delay(&self) -> Duration {
        5 * SECOND
    }
}

#[tokio::test(start_paused = true)]
async fn a_users_own_strategy_decides() {
    let (ledger, took) = until_dead(worker().policy(Twice), "x").await;
    assert_eq!((ledger.failed, took.as_secs()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_panics_loses_no_message() {
    let (ledger, _) = until_dead(worker().policy(Twice), "AI service").await;
    assert_eq!(ledger.failed, 4, "the default policy decides");
}

/// A decision as a tuple, in the order of the assertions.
type Told = (u32, u32, Option<u32>, String);

/// The decisions that an observer was told.
#[derive(Debug, Default)]
struct Decisions(Mutex<Vec<Told>>);

impl Observer for Decisions {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        if let Event::Retried { decision: Some(it), .. }
        | Event::DeadLettered { decision: Some(it), .. } = event
        {
            let told = (it.attempt(), it.retry_count, it.max_retries, it.reason.to_string());
            self.0.lock().unwrap().push(told);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_each_decision() {
    let told = Arc::new(Decisions::default());
    until_dead(worker().policy(exact().with_max_retries(1)).observer(told.clone()), "x").await;
    let exhausted = "max retries (1) exhausted".to_owned();
    let expected = [(1, 1, Some(1), "retry 1 of 1".to_owned()), (2, 1, Some(1), exhausted)];
    assert_eq!(*told.0.lock().unwrap(), expected);
}

/// What is logged on this thread. Clones are the same.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Lines about a decision.
    fn decisions(&self) -> Vec<Value> {
        let lines = self.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["outcome"].is_string()).collect()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of a message that fails until it is dead.
async fn logged(worker: Worker, message_type: &str) -> Captured {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber); // of this thread, which runs everything
    until_dead(worker, message_type).await;
    captured
}

#[tokio::test(start_paused = true)]
async fn each_decision_is_logged_as_it_was_made() {
    let lines = logged(worker().policy(exact()), "database").await.decisions();
    let said: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    let expected = [
        "attempt 1 of 4 failed, retry 1 of 3 in 2 s",
        "attempt 2 of 4 failed, retry 2 of 3 in 4 s",
        "attempt 3 of 4 failed, retry 3 of 3 in 8 s",
        "attempt 4 of 4 failed, dead-lettered: max retries (3) exhausted",
    ];
    assert_eq!(said, expected);
    for (line, retry_count) in lines.iter().zip([1, 2, 3, 3]) {
        for (field, value) in [
            ("queue", "lab"),
            ("message_id", "m-1"),
            ("correlation_id", "c-7"),
            ("kind", "database"),
            ("code", "db.down"),
        ] {
            assert_eq!(line[field], value, "{field} in {line}");
        }
        assert_eq!((&line["retry_count"], &line["max_retries"]), (&retry_count.into(), &3.into()));
    }
    assert_eq!(lines[1]["delay_ms"], 4_000);
    assert_eq!(
        (&lines[3]["level"], &lines[3]["reason"]),
        (&"ERROR".into(), &"max retries (3) exhausted".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_decision_says_why_there_is_no_other_attempt() {
    let said = async |worker, message_type| {
        let lines = logged(worker, message_type).await.decisions();
        lines.last().unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        said(worker(), "permanent").await,
        "attempt 1 of 4 failed, dead-lettered: non-retryable error: permanent"
    );
    assert_eq!(
        said(worker().policy(Twice), "x").await,
        "attempt 2 failed, dead-lettered: twice is enough"
    );
    let misses = Worker::new("lab", Router::new()).unwrap();
    assert_eq!(
        said(misses, "x").await,
        "attempt 1 of 4 failed, dead-lettered: no handler for this type of message"
    );
}

#[tokio::test(start_paused = true)]
async fn error_texts_are_logged_only_if_asked_for_and_then_loudly() {
    let quiet = logged(worker().policy(exact()), "x").await.text();
    assert!(quiet.contains("attempt 1 failed at try 1") && !quiet.contains(CANARY), "{quiet}");

    let loud = worker().policy(exact()).show_error_texts_for_development();
    let loud = logged(loud, "x").await.text();
    let first: Value = serde_json::from_str(loud.lines().next().unwrap()).unwrap();
    assert_eq!(first["level"], "WARN");
    assert!(first["message"].as_str().unwrap().starts_with("ERROR TEXTS ARE SHOWN"), "{first}");
    let shown = loud.lines().filter(|line| line.contains(CANARY)).count();
    assert_eq!(shown, 4, "one for each attempt, in its own line: {loud}");
}
