//! More than was asked for, and more than there is room for.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_transport_that_gives_more_than_asked_for_stops_nothing() {
    let transport = Scripted { surplus: 3, ..Scripted::new().await };
    send(&transport, &["a-1", "b-1", "c-1", "d-1", "e-1"]).await;
    let runs = Runs::default();
    let running = run(&transport, worker(&transport, &runs).concurrency(1));
    until_empty(&transport).await;
    running.stop().await;
    let mut all: Vec<_> = ["a-1", "b-1", "c-1", "d-1", "e-1"].map(|id| runs.of(id)).concat();
    all.sort();
    assert_eq!(all.len(), 5, "each was handled once");
    for pair in all.windows(2) {
        assert!(pair[0].1.unwrap() <= pair[1].0, "one at a time");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_in_hand_are_bounded_in_bytes() {
    const MIB: usize = 1024 * 1024;
    static HELD: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    async fn handle(body: Body) {
        let held = HELD.fetch_add(body.len(), Ordering::SeqCst) + body.len();
        MOST.fetch_max(held, Ordering::SeqCst);
        sleep(SECOND).await;
        HELD.fetch_sub(body.len(), Ordering::SeqCst);
    }
    let transport = Scripted::new().await;
    for number in 0..40 {
        send_body(&transport, &format!("m-{number}"), vec![0; MIB].into()).await;
    }
    let worker = Worker::new("lab", Router::new().on("result", handle)).unwrap();
    let worker = worker.concurrency(40).max_bytes(4 * MIB);
    let running = run(&transport, worker.deterministic(transport.clock.clone(), 1));
    until_empty(&transport).await;
    running.stop().await;
    let most = MOST.load(Ordering::SeqCst) / MIB;
    assert!((2..=8).contains(&most), "{most} MiB were in hand at once");
}
