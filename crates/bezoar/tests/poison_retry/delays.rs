//! When messages are retried, in virtual time.

use std::{sync::Arc, time::Duration};

use bezoar::{
    Decision, Failure, Ledger, PoisonRetry, Reason, RetryStrategy, Rng, poison_retry::LONGEST_DELAY,
};
use tokio::time::{Instant, sleep};

use crate::{
    memory_queue::MemoryQueue,
    support::{Deliveries, MINUTE, endpoint, options, processor},
};

#[tokio::test(start_paused = true)]
async fn a_message_waits_4_8_and_16_minutes_and_then_becomes_a_dead_letter() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.put("m", "refuse", 0);
    let processor = processor(&queue, &deliveries);
    for (raised, minutes) in [(1, 4), (2, 8), (3, 16)] {
        let run = processor.run_once().await.unwrap();
        assert_eq!((run.taken, run.retried), (1, 1));
        let stored = queue.state().messages["m"].clone();
        assert_eq!(stored.retry_count, raised);
        assert_eq!(stored.visible_at - Instant::now(), minutes * MINUTE);
        assert_eq!(processor.run_once().await.unwrap().taken, 0, "it is invisible");
        sleep(minutes * MINUTE).await;
    }
    assert_eq!(deliveries.of("m"), 3);
    assert_eq!(processor.run_once().await.unwrap().dead_lettered, 1);
    assert_eq!(deliveries.of("m"), 3, "without another delivery");
    let expected = ("m".into(), "refuse".into(), 3, "max retries (3) exhausted".into());
    assert_eq!(queue.state().dead, [expected]);
    assert!(queue.state().messages.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_count_at_or_above_the_maximum_is_dead_without_a_delivery() {
    for (count, max_attempts, delivered) in
        [(0, 0, 0), (2, 3, 1), (3, 3, 0), (4, 3, 0), (u32::MAX, 3, 0), (u32::MAX, u32::MAX, 0)]
    {
        let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
        queue.put("m", "accept", count);
        let mut options = options();
        options.max_attempts = max_attempts.min(10);
        let processor = crate::support::processor_with(&queue, &deliveries, options);
        let run = processor.run_once().await.unwrap();
        assert_eq!((run.delivered, run.dead_lettered), (delivered, 1 - delivered), "{count}");
        assert_eq!(u64::from(deliveries.of("m")), delivered);
    }
}

/// Waits as long as the body says, in hours.
#[derive(Debug)]
struct Hours(u32);

impl RetryStrategy for Hours {
    fn decide(&self, ledger: &Ledger, _: &Failure, _: &mut dyn Rng) -> Decision {
        match ledger.failed {
            0 => Decision::retry(ledger, self.largest_delay()),
            1 => Decision::retry(ledger, LONGEST_DELAY * 2),
            _ => Decision::dead_letter(ledger, Reason::new(Reason::EXHAUSTED, "enough")),
        }
    }

    fn largest_delay(&self) -> Duration {
        self.0 * 60 * MINUTE
    }
}

#[tokio::test(start_paused = true)]
async fn another_strategy_decides_and_cannot_wait_longer_than_it_declared() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.put("m", "refuse", 0);
    let processor =
        PoisonRetry::new(Arc::new(queue.clone()), options(), endpoint(deliveries)).unwrap();
    assert!(processor.clone().strategy(Hours(24 * 8)).is_err(), "above 7 days");
    let processor = processor.strategy(Hours(5)).unwrap();
    for count in [1, 2] {
        processor.run_once().await.unwrap();
        let stored = queue.state().messages["m"].clone();
        assert_eq!((stored.retry_count, stored.visible_at - Instant::now()), (count, 300 * MINUTE));
        sleep(300 * MINUTE).await;
    }
    processor.run_once().await.unwrap();
    assert_eq!(queue.state().dead[0].3, "enough");
}

#[derive(Debug)]
struct Panicking;

impl RetryStrategy for Panicking {
    fn decide(&self, _: &Ledger, _: &Failure, _: &mut dyn Rng) -> Decision {
        panic!("the strategy has a bug")
    }

    fn largest_delay(&self) -> Duration {
        MINUTE
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_panics_leaves_the_default_delays() {
    let (queue, deliveries) = (MemoryQueue::new(), Deliveries::default());
    queue.put("m", "refuse", 0);
    let processor = processor(&queue, &deliveries).strategy(Panicking).unwrap();
    assert_eq!(processor.run_once().await.unwrap().retried, 1);
    let waits = queue.state().messages["m"].visible_at - Instant::now();
    assert!((4 * MINUTE..=4 * MINUTE * 13 / 10).contains(&waits), "{waits:?}");
}
