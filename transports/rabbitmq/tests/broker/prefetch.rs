//! Prefetching: how many messages the broker sends ahead.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{Delivery, Outgoing, Settlement, SubscribeOptions, Subscription, Transport};
use bezoar_rabbitmq::Options;
use tokio::time::sleep;

use super::support::{Place, TYPES, message, one, options, settle};

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

/// A message with a body of so many bytes.
fn sized(bytes: usize) -> Outgoing {
    let mut message = message("m");
    message.body = vec![b'x'; bytes].into();
    message.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn large_messages_are_prefetched_by_bytes_and_small_ones_by_number() {
    const LARGE: usize = 128 * 1024;
    const MOST: usize = 64;
    for queue_type in TYPES {
        let (max_message_bytes, max_prefetch_bytes) = (LARGE, 8 * LARGE);
        let options = Options { max_message_bytes, max_prefetch_bytes, ..options(queue_type) };
        let place = Place::with(options).await;
        for sent in place.transport.send(&(&place.queue).into(), &vec![sized(LARGE); MOST]).await {
            sent.unwrap();
        }
        let ahead = SubscribeOptions::default().with_prefetch(NonZeroU32::new(64).unwrap());
        let worker = place.transport.subscribe(&place.queue, ahead).await.unwrap();
        let held = all(&*worker).await;
        assert_eq!(held.len(), 8, "as many as the bytes allow");
        for it in held {
            settle(&*worker, it, Settlement::Complete).await;
        }
        for _ in 8..MOST {
            settle(&*worker, one(&*worker).await, Settlement::Complete).await;
        }
        for sent in place.transport.send(&(&place.queue).into(), &vec![sized(10); 300]).await {
            sent.unwrap();
        }
        for _ in 0..200 {
            settle(&*worker, one(&*worker).await, Settlement::Complete).await;
        }
        let held = all(&*worker).await;
        assert!(held.len() > MOST / 2, "only {} small ones", held.len());
    }
}
