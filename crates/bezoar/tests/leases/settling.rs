//! Outcomes that are refused, late or unanswered.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bezoar::Settlement;

use super::*;

fn is_retry(settlement: &Settlement) -> bool {
    matches!(settlement, Settlement::Retry { .. })
}

#[tokio::test(start_paused = true)]
async fn a_lasting_refusal_pauses_the_consumer_and_kills_no_message() {
    let mut transport = Scripted::new().await;
    let (runs, broken) = (Runs::default(), Arc::new(AtomicBool::new(true)));
    let is_broken = broken.clone();
    transport.settle = Arc::new(move |settlement| {
        match is_retry(settlement) && is_broken.load(Ordering::SeqCst) {
            true => Answer::Refused(ErrorKind::Unusable),
            false => Answer::Works,
        }
    });
    send(&transport, &["bad-0", "good-0"]).await;
    let trouble = Arc::new(Trouble::default());
    let worker = worker(&transport, &runs).concurrency(2).observer(trouble.clone());
    let running = run(&transport, worker);
    sleep(SECOND).await;
    send(&transport, &["later-0"]).await;
    sleep(10 * LEASE).await;
    assert_eq!(runs.count("bad-0"), 1, "it is not handled again while its outcome is refused");
    assert_eq!(runs.count("later-0"), 0, "no more messages are taken");
    assert_eq!(trouble.0.lock().unwrap().last(), Some(&Some(ErrorKind::Unusable)), "it says why");
    broken.store(false, Ordering::SeqCst);
    until_empty(&transport).await;
    assert_eq!(trouble.0.lock().unwrap().last(), Some(&None), "and that it is over");
    let dead = transport.memory.dead_letters(&lab(), Default::default()).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].reason.to_string(), "max retries (3) exhausted");
    assert_eq!((runs.count("bad-0"), runs.count("later-0")), (4, 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn completes_do_not_wait_behind_retries() {
    let mut transport = Scripted::new().await;
    transport.settle = Arc::new(|settlement| match is_retry(settlement) {
        true => Answer::After(LEASE / 2),
        false => Answer::Works,
    });
    send(&transport, &["bad-0", "good-1", "good-2"]).await;
    let running = run(&transport, worker(&transport, &Runs::default()));
    sleep(3 * SECOND).await;
    let depth = transport.memory.depth(&lab()).await.unwrap();
    assert_eq!(depth.leased, Some(1), "only the one that is retried is not stored yet");
    until_empty(&transport).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn several_batches_are_stored_at_the_same_time() {
    let mut transport = Scripted::new().await;
    let hung = Arc::new(AtomicBool::new(false));
    let (first, release) = (hung.clone(), Instant::now() + LEASE / 2);
    transport.settle = Arc::new(move |_| match first.swap(true, Ordering::SeqCst) {
        false => Answer::After(release.saturating_duration_since(Instant::now())),
        true => Answer::Works,
    });
    send(&transport, &["good-0"]).await;
    let running = run(&transport, worker(&transport, &Runs::default()));
    sleep(SECOND).await;
    send(&transport, &["good-0.5"]).await;
    sleep(2 * SECOND).await;
    let depth = transport.memory.depth(&lab()).await.unwrap();
    assert_eq!(depth.leased, Some(1), "the second is stored while the first hangs");
    until_empty(&transport).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_asks_to_wait_is_left_alone_for_so_long() {
    let mut transport = Scripted::new().await;
    let (calls, first) = (Arc::new(Mutex::new(Vec::new())), AtomicBool::new(true));
    let noted = calls.clone();
    transport.settle = Arc::new(move |_| {
        noted.lock().unwrap().push(Instant::now());
        match first.swap(false, Ordering::SeqCst) {
            true => Answer::Refused(ErrorKind::Throttled { retry_after: Some(4 * SECOND) }),
            false => Answer::Works,
        }
    });
    send(&transport, &["good-0"]).await;
    let running = run(&transport, worker(&transport, &Runs::default()));
    until_empty(&transport).await;
    let calls = calls.lock().unwrap().clone();
    assert!(calls[1] - calls[0] >= 4 * SECOND, "asked again after {:?}", calls[1] - calls[0]);
    running.stop().await;
}

/// Counts settlements of which nothing is known.
#[derive(Debug, Default)]
struct Unknown(AtomicU32);

impl Observer for Unknown {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        if let Event::NotSettled(_) = event {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_without_a_result_is_told() {
    let mut transport = Scripted::new().await;
    transport.settle = Arc::new(|_| Answer::NoResult);
    send(&transport, &["good-0", "good-0", "good-0"]).await;
    let unknown = Arc::new(Unknown::default());
    let running = run(&transport, worker(&transport, &Runs::default()).observer(unknown.clone()));
    until_empty(&transport).await;
    running.stop().await;
    assert_eq!(unknown.0.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_hangs_does_not_keep_others_from_their_renewal() {
    let mut transport = Scripted::new().await;
    let (runs, first) = (Runs::default(), AtomicBool::new(true));
    transport.settle = Arc::new(move |_| match first.swap(false, Ordering::SeqCst) {
        true => Answer::After(5 * LEASE),
        false => Answer::Works,
    });
    send(&transport, &["good-0"]).await;
    let running = run(&transport, worker(&transport, &runs));
    sleep(2 * SECOND).await;
    send(&transport, &["good-25"]).await;
    sleep(30 * SECOND).await;
    assert_eq!(runs.count("good-25"), 1, "its lease was renewed");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_stops_although_nothing_can_be_stored() {
    let mut transport = Scripted::new().await;
    transport.settle = Arc::new(|_| Answer::Refused(ErrorKind::Unavailable));
    send(&transport, &["good-0"; 40]).await;
    let running = run(&transport, worker(&transport, &Runs::default()).concurrency(2));
    sleep(5 * SECOND).await;
    timeout(20 * SECOND, running.stop()).await.expect("it stops");
    assert_eq!(transport.closed.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_late_is_renewed_at_once() {
    let mut transport = Scripted::new().await;
    let (runs, start) = (Runs::default(), Instant::now());
    transport.settle = Arc::new(move |_| match start.elapsed() < 2 * LEASE {
        true => Answer::UnavailableAfter(LEASE.mul_f64(0.35)),
        false => Answer::Works,
    });
    send(&transport, &["good-3.2"]).await;
    let running = run(&transport, worker(&transport, &runs));
    sleep(LEASE.mul_f64(0.66)).await;
    send(&transport, &["good-0.1"]).await;
    until_empty(&transport).await;
    assert_eq!((runs.count("good-3.2"), runs.count("good-0.1")), (1, 1), "neither lost its lease");
    running.stop().await;
}
