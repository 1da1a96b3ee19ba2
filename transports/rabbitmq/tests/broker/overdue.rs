//! The check finds messages that stay in a delay queue beyond their time.

use std::time::Duration;

use bezoar_core::{Outgoing, Severity, Transport};
use bezoar_rabbitmq::QueueType;
use tokio::time::Instant;

use super::{
    support::{PATIENCE, Place, message},
    vhost::Vhost,
};

const RETRIES: usize = 120;

/// A queue that becomes full without a return queue: its retries stay in the delay queue that all queues share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn expired_messages_that_are_not_moved_on_are_found() {
    let vhost = Vhost::new().await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    let delayed =
        |number| Outgoing::from(message(&format!("m-{number}"))).after(Duration::from_millis(400));
    vhost.policy(&format!("^{}$", place.queue), r#"{"max-length": 1}"#).await;
    let started = Instant::now();
    while place.send(message("filler")).await.is_ok() {
        assert!(started.elapsed() < PATIENCE, "the queue is never full");
    }
    let batch: Vec<_> = (0..RETRIES).map(delayed).collect();
    for sent in place.transport.send(&(&place.queue).into(), &batch).await {
        sent.unwrap();
    }
    let started = Instant::now();
    loop {
        let found = place.transport.validate_all(&[]).await.unwrap().shared;
        let overdue = found.iter().find(|it| it.problem.contains("were not moved on"));
        if let Some(overdue) = overdue {
            assert_eq!(overdue.severity, Severity::Warning);
            assert!(overdue.problem.contains("\"bezoar.delay."), "{overdue:?}");
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{found:?}");
    }
}
