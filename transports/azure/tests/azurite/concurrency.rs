//! How many messages are handled at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar_azure::Limits;
use bezoar_core::{Failure, Transport};
use bezoar_runtime::{Host, Polling, Router, Shutdown, Worker};

use super::support::{Outside, message, open, options, queue, subscribe};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn fetch_loops_times_batch_concurrency_messages_are_handled_at_a_time() {
    let (queue, mut options) = (queue("concurrency").await, options());
    options.limits.fetch_loops = 3;
    options.limits.batch_concurrency = 4;
    let (limits, transport) = (options.limits, open(options));
    let batch: Vec<_> = (0..48).map(|it| message(&format!("m-{it}"), "body").into()).collect();
    for sent in transport.send(&(&queue).into(), &batch).await {
        sent.unwrap();
    }
    let (running, peak) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let worker = worker(queue.as_str(), limits, running, peak.clone());
    let stop = Shutdown::default();
    let host = Host::new().worker(Arc::new(transport), worker);
    let host = tokio::spawn(host.run(stop.clone()));
    let outside = Outside::queue(queue.as_str());
    while outside.count().await > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.drain();
    host.await.unwrap().unwrap();
    assert_eq!(peak.load(Ordering::SeqCst), limits.concurrency(), "3 loops of 4 messages");
}

fn worker(queue: &str, limits: Limits, running: Arc<AtomicU32>, peak: Arc<AtomicU32>) -> Worker {
    let handler = move || {
        let (running, peak) = (running.clone(), peak.clone());
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), Failure>(())
        }
    };
    Worker::new(queue, Router::new().on("lab.result", handler))
        .unwrap()
        .fetch_loops(limits.fetch_loops)
        .concurrency(limits.batch_concurrency)
        .lease(limits.visibility_timeout)
        .max_deliveries(limits.max_dequeue_count)
}

/// Another consumer died. Its messages are handled once their leases have expired and the empty queue is polled again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn expired_leases_are_picked_up_within_the_longest_poll() {
    let (queue, mut options) = (queue("expired").await, options());
    options.limits.visibility_timeout = Duration::from_secs(6);
    options.limits.first_poll = Duration::from_secs(1);
    let (limits, transport) = (options.limits, open(options));
    let batch: Vec<_> = (0..5).map(|it| message(&format!("m-{it}"), "body").into()).collect();
    for sent in transport.send(&(&queue).into(), &batch).await {
        sent.unwrap();
    }
    let leased = std::time::Instant::now();
    let dead = subscribe(&transport, &queue, 6).await;
    let held = dead.receive(std::num::NonZeroU32::new(16).unwrap(), Duration::ZERO).await.unwrap();
    assert_eq!(held.len(), 5);
    std::mem::forget(dead); // nothing is given back
    let (handled, mut all) = tokio::sync::watch::channel(0);
    let handler = move || {
        handled.send_modify(|count| *count += 1);
        async { Ok::<(), Failure>(()) }
    };
    let worker = Worker::new(queue.as_str(), Router::new().on("lab.result", handler)).unwrap();
    let polling = Polling { first: limits.first_poll, longest: limits.longest_poll };
    let worker = worker.fetch_loops(limits.fetch_loops).lease(limits.visibility_timeout);
    let stop = Shutdown::default();
    let host = Host::new().worker(Arc::new(transport), worker.polling(polling));
    let host = tokio::spawn(host.run(stop.clone()));
    let most = limits.visibility_timeout + limits.longest_poll + Duration::from_secs(1);
    let left = most.saturating_sub(leased.elapsed());
    tokio::time::timeout(left, all.wait_for(|count| *count == 5)).await.unwrap().unwrap();
    assert!(leased.elapsed() >= limits.visibility_timeout, "the leases were kept");
    stop.drain();
    host.await.unwrap().unwrap();
}
