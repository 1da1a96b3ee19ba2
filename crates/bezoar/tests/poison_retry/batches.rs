//! One message never stops another.

use std::sync::Arc;

use bezoar::{Context, PoisonRetry, PoisonRun, poison_retry::PoisonRetryOptions};
use tokio::sync::Barrier;
use tower::{BoxError, service_fn};

use crate::{
    memory_queue::MemoryQueue,
    support::{Deliveries, options, processor, processor_with},
};

fn counts(run: PoisonRun) -> [u64; 5] {
    [run.taken, run.delivered, run.retried, run.dead_lettered, run.left]
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_ends_as_the_table_says() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    for body in ["accept", "refuse", "reject", "panic", "hang", "undecodable", "unavailable"] {
        queue.put(body, body, 0);
    }
    queue.put("exhausted", "accept", 3);
    let run = processor(&queue, &deliveries).run_once().await.unwrap();
    assert_eq!(counts(run), [8, 1, 3, 3, 1]);
    let state = queue.state();
    let left: Vec<_> =
        state.messages.iter().map(|(id, it)| (id.as_str(), it.retry_count)).collect();
    assert_eq!(left, [("hang", 1), ("panic", 1), ("refuse", 1), ("unavailable", 0)]);
    let mut dead: Vec<_> = state.dead.iter().map(|it| (it.0.as_str(), it.3.as_str())).collect();
    dead.sort_unstable();
    let expected = [
        ("exhausted", "max retries (3) exhausted"),
        ("reject", "non-retryable error: permanent"),
        ("undecodable", "Failed to deserialize message"),
    ];
    assert_eq!(dead, expected);
    for (id, expected) in [("accept", 1), ("hang", 1), ("exhausted", 0), ("undecodable", 0)] {
        assert_eq!(deliveries.of(id), expected, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_stored_before_its_message_is_deleted() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.put("m", "undecodable", 0);
    processor(&queue, &deliveries).run_once().await.unwrap();
    assert_eq!(queue.state().requests, ["dead letter m", "delete m DeadLettered"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_delivered_concurrently() {
    let queue = MemoryQueue::new();
    for number in 0..10 {
        queue.put(&number.to_string(), "accept", 0);
    }
    let all = Arc::new(Barrier::new(10));
    let service = service_fn(move |_: Context| {
        let all = all.clone();
        async move {
            all.wait().await; // returns only if ten deliveries run at a time
            Ok::<_, BoxError>(())
        }
    });
    let processor = PoisonRetry::new(Arc::new(queue), options(), service).unwrap();
    assert_eq!(counts(processor.run_once().await.unwrap()), [10, 10, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_one_batch_unless_it_may_take_more() {
    for (batch, batches, taken) in [(10, 1, 10), (32, 1, 32), (10, 3, 30), (10, 9, 50)] {
        let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
        for number in 0..50 {
            queue.put(&number.to_string(), "accept", 0);
        }
        let options = PoisonRetryOptions { batch, batches, ..options() };
        let run = processor_with(&queue, &deliveries, options).run_once().await.unwrap();
        assert_eq!(run.taken, taken);
        assert_eq!(queue.state().messages.len() as u64, 50 - taken);
    }
}
