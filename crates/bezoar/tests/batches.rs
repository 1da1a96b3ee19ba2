//! Several messages in one call of a handler, each with an attempt, a lease, a timeout and an outcome of its own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar::{
    Batch, BatchOptions, Code, Failure, Json, MessageId, Router, Snooze, State, Worker,
    testing::Harness,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// The batches that a handler was called with.
type Seen = Arc<Mutex<Vec<Vec<i32>>>>;

fn options(max_messages: u32) -> BatchOptions {
    BatchOptions::new(max_messages, SECOND).unwrap()
}

async fn start(router: Router<Seen>, change: impl Fn(Worker) -> Worker) -> Harness {
    Harness::start(change(Worker::new("lab", router).unwrap())).await
}

async fn send(lab: &Harness, values: impl IntoIterator<Item = i32>) {
    for value in values {
        lab.send("result", &value).await;
    }
}

/// Notes the batch; a negative value fails, the others are done.
async fn note(
    Batch(values): Batch<Json<i32>>,
    State(seen): State<Seen>,
) -> Vec<Result<(), Failure>> {
    let values: Vec<i32> = values.into_iter().map(|Json(value)| value).collect();
    seen.lock().unwrap().push(values.clone());
    let judge = |value: i32| match value {
        0.. => Ok(()),
        _ => Err(Failure::permanent("negative")),
    };
    values.into_iter().map(judge).collect()
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_starts_at_once_and_a_smaller_one_after_its_wait() {
    let seen = Seen::default();
    let router = Router::with_state(seen.clone()).on_batch("result", options(4), note);
    let lab = start(router, |worker| worker).await;
    let started = Instant::now();
    send(&lab, 0..10).await;
    lab.until_idle().await;
    let seen = seen.lock().unwrap();
    let sizes: Vec<_> = seen.iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 4, 2]);
    let mut all: Vec<_> = seen.concat();
    all.sort();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
    assert_eq!(started.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_has_its_own_outcome() {
    let seen = Seen::default();
    let router = Router::with_state(seen.clone()).on_batch("result", options(4), note);
    let lab = start(router, |worker| worker).await;
    send(&lab, [1, -2, 3]).await;
    lab.until_idle().await;
    assert_eq!(seen.lock().unwrap().len(), 1);
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(&dead.message.body.reveal()[..], b"-2");
    assert_eq!(dead.message.ledger.failed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_every_message_with_an_attempt_of_its_own() {
    async fn handler(Batch(values): Batch<Json<i32>>, State(seen): State<Seen>) {
        seen.lock().unwrap().push(values.iter().map(|Json(value)| *value).collect());
        panic!("CANARY");
    }
    let seen = Seen::default();
    let router = Router::with_state(seen.clone()).on_batch("result", options(3), handler);
    let lab = start(router, |worker| worker).await;
    send(&lab, 0..3).await;
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    assert_eq!(dead.len(), 3);
    for dead in &dead {
        let ledger = &dead.message.ledger;
        assert_eq!((ledger.failed, &ledger.last().unwrap().code), (4, &Code::PANIC));
        assert_eq!(ledger.last().unwrap().detail.reveal(), "CANARY");
    }
    assert!(!format!("{dead:?}").contains("CANARY"));
}

#[tokio::test(start_paused = true)]
async fn one_error_is_the_outcome_of_all_and_a_missing_result_is_a_failure() {
    async fn one_for_all(_: Batch<Json<i32>>) -> Result<(), std::io::Error> {
        Err(std::io::Error::other("rolled back"))
    }
    async fn too_few(_: Batch<Json<i32>>) -> Result<Vec<Result<(), Failure>>, Failure> {
        Ok(vec![Ok(())])
    }
    let router = Router::with_state(Seen::default());
    let router = router.on_batch("all", options(2), one_for_all);
    let router = router.on_batch("few", options(2), too_few);
    let lab =
        start(router, |worker| worker.policy(bezoar::RetryPolicy::jobs().with_max_retries(0)))
            .await;
    for message_type in ["all", "all", "few", "few"] {
        lab.send(message_type, &1).await;
    }
    lab.until_idle().await;
    let dead = lab.dead_letters().await;
    let mut codes: Vec<_> = dead
        .iter()
        .map(|dead| {
            let last = dead.message.ledger.last().unwrap();
            format!("{} {}", dead.message.message_type, last.code)
        })
        .collect();
    codes.sort();
    assert_eq!(codes, ["all unknown", "all unknown", "few batch-result-missing"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_read_fails_alone() {
    let seen = Seen::default();
    let router = Router::with_state(seen.clone()).on_batch("result", options(2), note);
    let lab = start(router, |worker| worker).await;
    lab.send("result", &"text").await;
    send(&lab, [1, 2]).await;
    lab.until_idle().await;
    assert_eq!(*seen.lock().unwrap(), [[1, 2]]);
    assert_eq!(lab.dead_letters().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_holds_no_more_than_the_worker_handles_at_a_time() {
    let seen = Seen::default();
    let router = Router::with_state(seen.clone()).on_batch("result", options(100), note);
    let lab = start(router, |worker| worker.concurrency(3)).await;
    send(&lab, 0..6).await;
    lab.until_idle().await;
    let sizes: Vec<_> = seen.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_message_includes_its_wait_and_stops_the_handler_with_the_last() {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    async fn hangs(_: Batch<Json<i32>>) {
        let _ends = Ends;
        std::future::pending::<()>().await;
    }
    let router = Router::with_state(Seen::default()).on_batch("result", options(10), hangs);
    let once = bezoar::RetryPolicy::jobs().with_max_retries(0);
    let lab = start(router, |worker| worker.timeout(5 * SECOND).policy(once)).await;
    let started = Instant::now();
    send(&lab, 0..2).await;
    lab.until_idle().await;
    assert_eq!(started.elapsed(), 5 * SECOND, "one second of which it gathered");
    let dead = lab.dead_letters().await;
    assert!(dead.iter().all(|dead| dead.message.ledger.last().unwrap().code == Code::TIMEOUT));
    assert_eq!((dead.len(), ENDED.load(Ordering::SeqCst)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_while_a_batch_runs() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    async fn slow(_: Batch<Json<i32>>) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(100 * SECOND).await;
    }
    let router = Router::with_state(Seen::default()).on_batch("result", options(3), slow);
    let lab = start(router, |worker| worker.lease(6 * SECOND)).await;
    send(&lab, 0..3).await;
    lab.until_idle().await;
    assert_eq!(CALLS.load(Ordering::SeqCst), 1, "no message was delivered again");
    assert!(lab.dead_letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_batch_can_be_snoozed_and_the_others_are_done() {
    async fn handler(
        Batch(messages): Batch<(MessageId, Json<i32>)>,
        State(seen): State<Seen>,
    ) -> Vec<Result<(), Failure>> {
        let values: Vec<i32> = messages.iter().map(|(_, Json(value))| *value).collect();
        let first = seen.lock().unwrap().is_empty();
        seen.lock().unwrap().push(values.clone());
        let judge =
            |value| if first && value == 2 { Err(Snooze(60 * SECOND).into()) } else { Ok(()) };
        values.into_iter().map(judge).collect()
    }
    let seen = Seen::default();
    let router = Router::with_state(seen.clone()).on_batch("result", options(3), handler);
    let lab = start(router, |worker| worker).await;
    send(&lab, 1..=3).await;
    lab.until_idle().await;
    assert_eq!(*seen.lock().unwrap(), [vec![1, 2, 3], vec![2]]);
}
