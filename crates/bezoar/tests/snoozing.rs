//! A handler hands its message back for a while, without using up an attempt, and not for ever.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar::{
    AttemptNumber, Failure, Router, Snooze, State, UncountedPolicy, Worker, testing::Harness,
};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

type Calls = Arc<AtomicU32>;

/// Not ready for the first five calls.
async fn collect(State(calls): State<Calls>, attempt: AttemptNumber) -> Result<(), Failure> {
    assert_eq!(attempt.0, 1, "no attempt was used up");
    if calls.fetch_add(1, Ordering::SeqCst) < 5 {
        Err(Snooze(10 * MINUTE))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_snoozed_message_returns_when_it_was_asked_for_and_uses_up_no_attempt() {
    let calls = Calls::default();
    let router = Router::with_state(calls.clone()).on("report", collect);
    let lab = Harness::start(Worker::new("lab", router).unwrap().immediate_retries(3)).await;
    let started = Instant::now();
    lab.send("report", &1).await;
    lab.until_idle().await;
    assert_eq!(calls.load(Ordering::SeqCst), 6);
    assert_eq!(started.elapsed(), 50 * MINUTE, "to the minute, and not tried at once");
    assert!(lab.dead_letters().await.is_empty());
}

async fn never_ready(State(calls): State<Calls>) -> Result<(), Snooze> {
    calls.fetch_add(1, Ordering::SeqCst);
    Err(Snooze(HOUR))
}

#[tokio::test(start_paused = true)]
async fn a_message_is_not_snoozed_for_ever() {
    let calls = Calls::default();
    let router = Router::with_state(calls.clone()).on("report", never_ready);
    let limit = UncountedPolicy { max_age: 24 * HOUR, ..UncountedPolicy::default() };
    let lab = Harness::start(Worker::new("lab", router).unwrap().uncounted(limit)).await;
    let started = Instant::now();
    lab.send("report", &1).await;
    lab.until_idle().await;
    // Each hour for a day; from then on each snooze is a failed attempt, of which there may be four.
    assert_eq!(started.elapsed().as_secs() / 3600, 24);
    assert_eq!(calls.load(Ordering::SeqCst), 24 + 4);
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    let ledger = &dead.message.ledger;
    assert_eq!((ledger.failed, ledger.last().unwrap().code.as_str()), (4, "snooze-limit"));
    assert_eq!(ledger.uncounted.as_ref().unwrap().code.as_str(), "snoozed");
}

#[tokio::test(start_paused = true)]
async fn a_single_snooze_beyond_the_limit_is_a_failed_attempt() {
    let handler = || async { Err::<(), _>(Snooze(Duration::from_secs(400 * 86_400))) };
    let lab = Worker::new("lab", Router::new().on("report", handler)).unwrap();
    let lab = Harness::start(lab).await;
    lab.send("report", &1).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.message.ledger.failed, 4);
}

#[tokio::test(start_paused = true)]
async fn a_snooze_after_a_failed_try_leaves_the_attempt_failed() {
    async fn handler(State(calls): State<Calls>) -> Result<(), Failure> {
        match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err("broken")?,
            1 => Err(Snooze(HOUR))?,
            _ => (),
        }
        Ok(())
    }
    let calls = Calls::default();
    let router = Router::with_state(calls.clone()).on("report", handler);
    let worker = Worker::new("lab", router).unwrap().immediate_retries(1);
    let lab = Harness::start(worker).await;
    let started = Instant::now();
    lab.send("report", &1).await;
    lab.until_idle().await;
    assert!(started.elapsed() < MINUTE, "the policy's delay, not the snooze");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}
