//! A test in virtual time: 28 minutes of retries take no time. Run it with `cargo test --example virtual_time`, or as a
//! program.

use bezoar::{
    AttemptNumber, Failure, Json, RetryPolicy, Router, TypedMessage, Worker, testing::Harness,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct LabResult {
    value: f64,
}

impl TypedMessage for LabResult {
    const TYPE: &'static str = "lab.result";
}

/// The archive is down for the first two attempts.
async fn store(Json(result): Json<LabResult>, attempt: AttemptNumber) -> Result<(), Failure> {
    if result.value < 0.0 {
        return Err(Failure::permanent("a negative value"));
    }
    if attempt.0 < 3 { Err(Failure::transient("the archive is down")) } else { Ok(()) }
}

fn worker() -> Worker {
    let worker = Worker::new("lab", Router::new().on_message(store)).expect("a valid name");
    worker.policy(RetryPolicy::poison_queue())
}

async fn a_result_outlives_an_outage_and_a_negative_one_is_set_aside() {
    let lab = Harness::start(worker()).await;
    lab.send_typed(&LabResult { value: 14.1 }).await;
    lab.send_typed(&LabResult { value: -1.0 }).await;
    let started = tokio::time::Instant::now();
    lab.until_idle().await;

    let minutes = started.elapsed().as_secs() / 60;
    assert!((4 + 8..=16).contains(&minutes), "4 and 8 minutes, each up to 30 % longer");
    let dead = lab.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].reason.to_string(), "non-retryable error: permanent");
    lab.stop().await;
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let started = std::time::Instant::now();
    a_result_outlives_an_outage_and_a_negative_one_is_set_aside().await;
    assert!(started.elapsed().as_secs() < 10);
    println!("passed: 2 messages, 1 dead letter, minutes of retries in no time");
}

#[cfg(test)]
#[tokio::test(start_paused = true)]
async fn virtual_time() {
    a_result_outlives_an_outage_and_a_negative_one_is_set_aside().await;
}
