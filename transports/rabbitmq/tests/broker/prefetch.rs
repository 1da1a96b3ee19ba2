//! Prefetching: how many messages the broker sends ahead.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{Delivery, SubscribeOptions, Subscription, Transport};
use tokio::time::sleep;

use super::support::{Place, TYPES, message, one};

const AHEAD: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// Receives everything that arrives, without settling anything.
async fn all(worker: &dyn Subscription) -> Vec<Delivery> {
    let mut all = Vec::new();
    loop {
        let some = worker.receive(AHEAD, Duration::from_millis(500)).await.unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn after_messages_were_left_waiting_the_prefetch_is_halved() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        for number in 0..12 {
            place.send(message(&format!("m-{number}"))).await.unwrap();
        }
        let options = SubscribeOptions::default().with_prefetch(AHEAD);
        let worker = place.transport.subscribe(&place.queue, options).await.unwrap();
        let _first = one(&*worker).await;
        sleep(Duration::from_secs(1)).await; // three messages stay prefetched for longer than `idle`
        let then = all(&*worker).await;
        let ids: Vec<_> = then.iter().map(|it| it.message.id.as_str()).collect();
        // These three are delivered, or were returned to the end of their queue.
        let more = ids.iter().filter(|id| !["m-1", "m-2", "m-3"].contains(id)).count();
        assert_eq!(more, 2, "{ids:?}");
    }
}
