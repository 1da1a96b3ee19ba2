//! Runs on demand and on a schedule.

use std::time::Duration;

use bezoar::{ErrorKind, Shutdown};
use tokio::time::sleep;

use crate::{
    memory_queue::{Fault, MemoryQueue},
    support::{Deliveries, MINUTE, processor},
};

#[tokio::test(start_paused = true)]
async fn a_missing_queue_is_created() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.state().exists = false;
    let run = processor(&queue, &deliveries).run_once().await.unwrap();
    assert_eq!(run.taken, 0);
    assert_eq!(queue.state().requests, ["create"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_proceed_fails() {
    for (fault, kind) in [
        (Fault::Refused, ErrorKind::NotAuthorized),
        (Fault::Unavailable, ErrorKind::Unavailable),
        (Fault::Panic, ErrorKind::Other),
        (Fault::CrashBefore, ErrorKind::Unavailable), // it never answers
    ] {
        let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
        queue.put("m", "accept", 0);
        queue.fail_at(0, fault);
        let processor = processor(&queue, &deliveries);
        let failed = processor.run_once().await.unwrap_err();
        assert_eq!(failed.source.kind, kind, "{fault:?}");
        assert_eq!(failed.to_string(), "cannot take messages from the poison queue results-poison");
        assert_eq!(processor.run_once().await.unwrap().delivered, 1, "the next one does");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_created_fails_the_run() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.state().exists = false;
    queue.fail_at(1, Fault::Refused);
    let failed = processor(&queue, &deliveries).run_once().await.unwrap_err();
    assert_eq!(failed.source.kind, ErrorKind::NotAuthorized);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_at_once_and_then_at_its_interval_whatever_happens() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.fail_at(1, Fault::Refused);
    let (shutdown, processor) = (Shutdown::default(), processor(&queue, &deliveries));
    let running = tokio::spawn({
        let shutdown = shutdown.clone();
        async move { processor.run(shutdown).await }
    });
    let made = |after: Duration| {
        let queue = queue.clone();
        async move {
            sleep(after).await;
            queue.state().made
        }
    };
    assert_eq!(made(MINUTE).await, 1);
    assert_eq!(made(3 * MINUTE).await, 1);
    assert_eq!(made(2 * MINUTE).await, 2, "it failed");
    assert_eq!(made(10 * MINUTE).await, 4);
    shutdown.drain();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_begun_is_finished_unless_it_is_aborted() {
    for (abort, left) in [(false, 0), (true, 1)] {
        let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
        queue.put("m", "hang", 2); // for 30 s, and then it is updated
        let (shutdown, processor) = (Shutdown::default(), processor(&queue, &deliveries));
        let running = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { processor.run(shutdown).await }
        });
        sleep(Duration::from_secs(1)).await;
        shutdown.drain();
        if abort {
            shutdown.abort();
        }
        running.await.unwrap();
        let unchanged = queue.state().messages.values().filter(|it| it.retry_count == 2).count();
        assert_eq!(unchanged, left, "abort: {abort}");
    }
}
