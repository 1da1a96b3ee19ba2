//! Settings out of range are refused, all at once, and nothing starts. One error type says why workers did not run.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{error::Error, time::Duration};

use bezoar::{
    BatchOptions, Bezoar, Polling, Router, RunErrorKind, Shutdown, UncountedPolicy, Worker,
};

fn worker() -> Worker {
    Worker::new("lab", Router::new()).unwrap()
}

fn problems(worker: &Worker) -> Vec<String> {
    match worker.check().map_err(|error| error.kind().clone()) {
        Ok(()) => Vec::new(),
        Err(RunErrorKind::InvalidSettings { problems, .. }) => {
            problems.iter().map(ToString::to_string).collect()
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn every_setting_has_a_range_and_is_never_clamped() {
    let second = Duration::from_secs(1);
    let cases: [(Worker, &str); 13] = [
        (worker().concurrency(0), "concurrency is 0, 1 to 10000 are accepted"),
        (worker().concurrency(10_001), "concurrency is 10001, 1 to 10000 are accepted"),
        (worker().fetch_loops(0), "fetch_loops is 0, 1 to 100 are accepted"),
        (worker().fetch_loops(101), "fetch_loops is 101, 1 to 100 are accepted"),
        (worker().prefetch(0), "prefetch is 0, 1 to 65535 are accepted"),
        (worker().immediate_retries(11), "immediate_retries is 11, 0 to 10 are accepted"),
        (worker().max_deliveries(0), "max_deliveries is 0, at least 1 is required"),
        (worker().timeout(Duration::ZERO), "timeout is 0ns, at least 1ns is required"),
        (worker().lease(second / 2), "lease is 500ms, at least 1s and at most 604800s is required"),
        (
            worker().lease(Duration::from_secs(604_801)),
            "lease is 604801s, at least 1s and at most 604800s is required",
        ),
        (worker().max_bytes(0), "max_bytes is 0, at least 1 is required"),
        (
            worker().polling(Polling { first: 2 * second, longest: second }),
            "polling.first is 2s, at least 10ms and at most 1s is required",
        ),
        (
            worker().uncounted(UncountedPolicy {
                first: 2 * second,
                longest: second,
                ..UncountedPolicy::default()
            }),
            "wait is longer than the longest wait",
        ),
    ];
    for (worker, problem) in cases {
        assert_eq!(problems(&worker), [problem]);
    }
    let accepted = worker().concurrency(10_000).fetch_loops(100).prefetch(65_535);
    let accepted = accepted.immediate_retries(10).lease(second).max_bytes(1).max_deliveries(1);
    assert!(problems(&accepted).is_empty());
}

#[test]
fn options_of_batches_have_a_range() {
    let wait = Duration::from_millis(1);
    for refused in [(0, wait), (10_001, wait), (1, Duration::from_secs(61))] {
        assert!(BatchOptions::new(refused.0, refused.1).is_err(), "{refused:?}");
    }
    assert!(BatchOptions::new(10_000, Duration::from_secs(60)).is_ok());
}

#[tokio::test]
async fn all_problems_are_named_at_once_and_nothing_starts() {
    let bezoar = bezoar::connect("memory:").await.unwrap();
    let worker = worker().concurrency(0).lease(Duration::ZERO);
    let error = bezoar.run_until(worker, Shutdown::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("invalid settings of the worker for queue lab: "), "{text}");
    assert!(text.contains("concurrency is 0") && text.contains("; lease is 0ns"), "{text}");
    assert!(bezoar.admin().queues().await.unwrap().is_empty(), "the queue was not created");
}

#[tokio::test]
async fn run_and_run_until_fail_with_the_same_error() {
    let bezoar = Bezoar::new(bezoar::memory::MemoryTransport::default());
    let refused = || worker().concurrency(0);
    for failed in [
        bezoar.run(refused()).await,
        bezoar.run_all([worker(), refused()]).await,
        bezoar.run_until(refused(), Shutdown::default()).await,
    ] {
        let error: Box<dyn Error + Send + Sync> = failed.unwrap_err().into();
        let error = error.downcast_ref::<bezoar::RunError>().unwrap();
        assert!(matches!(error.kind(), RunErrorKind::InvalidSettings { .. }), "{error}");
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_queue_that_cannot_be_opened_is_named_with_the_transports_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.db");
    let bezoar = bezoar::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    let long = "x".repeat(255);
    bezoar.admin().provision(&bezoar::QueueName::new(&long).unwrap()).await.unwrap();
    // The file is gone under us: nothing can be stored any more.
    std::fs::remove_file(&file).unwrap();
    let failed = bezoar.run_until(worker(), Shutdown::default()).await.unwrap_err();
    assert!(
        matches!(failed.kind(), RunErrorKind::QueueUnavailable(queue) if queue.as_str() == "lab")
    );
    assert_eq!(failed.to_string(), "queue lab unavailable");
    assert!(failed.source().unwrap().is::<bezoar::TransportError>());
}
