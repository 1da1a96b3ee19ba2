//! Lost deliveries: the first costs one copy, the second makes a suspect, and suspects block nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use bezoar_core::{Delivery, QueueAdmin, Settlement, SubscribeOptions, Subscription, Transport};
use bezoar_rabbitmq::QueueType;
use lapin::{options::QueueDeclareOptions, types::FieldTable};
use tokio::time::{Instant, sleep};

use super::support::{
    PATIENCE, Place, TYPES, foreign_channel, message, one, options, retry, settle,
};

const MANY: NonZeroU32 = NonZeroU32::new(20).unwrap();
const WAIT: Duration = Duration::from_millis(1_500);

/// How many messages are ready in the quarantine queue.
async fn quarantined(place: &Place) -> u32 {
    let (_connection, channel) = foreign_channel().await;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let name = format!("{}.quarantine", place.queue);
    let found = channel.queue_declare(name.into(), passive, FieldTable::default()).await.unwrap();
    found.message_count()
}

/// Simulates a process that prefetches everything, receives `max` messages, and is lost. Returns the
/// messages that it received.
async fn lose(place: &Place, queue_type: QueueType, max: NonZeroU32) -> Vec<Delivery> {
    let process = place.seen_with(options(queue_type));
    let worker = prefetching(&process).await;
    let mut held = Vec::new();
    while held.len() < max.get() as usize {
        let left = NonZeroU32::new(max.get() - held.len() as u32).unwrap();
        let some = worker.receive(left, PATIENCE).await.unwrap();
        assert!(!some.is_empty(), "messages must arrive");
        held.extend(some);
    }
    // Everything is prefetched before the process is lost.
    let started = Instant::now();
    while place.transport.depth(&place.queue).await.unwrap().ready != Some(0) {
        assert!(started.elapsed() < PATIENCE, "they are not prefetched");
        sleep(Duration::from_millis(20)).await;
    }
    process.transport.close().await;
    held
}

/// A subscription that may prefetch everything.
async fn prefetching(place: &Place) -> Box<dyn Subscription> {
    let options = SubscribeOptions::default().with_prefetch(MANY);
    place.transport.subscribe(&place.queue, options).await.unwrap()
}

async fn send_many(place: &Place) -> BTreeSet<String> {
    let ids: BTreeSet<_> = (0..MANY.get()).map(|number| format!("m-{number:02}")).collect();
    for id in &ids {
        place.send(message(id)).await.unwrap();
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_first_lost_delivery_quarantines_nobody() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let sent = send_many(&place).await;
        lose(&place, queue_type, NonZeroU32::new(5).unwrap()).await;
        let worker = prefetching(&place).await;
        let mut back = Vec::new();
        // Nothing is settled before all have arrived: none waits for another.
        while back.len() < sent.len() {
            let some = worker.receive(MANY, PATIENCE).await.unwrap();
            assert!(!some.is_empty(), "only {} came back", back.len());
            back.extend(some);
        }
        assert_eq!(quarantined(&place).await, 0);
        let ids: BTreeSet<_> = back.iter().map(|it| it.message.id.to_string()).collect();
        assert_eq!(ids, sent);
        for delivery in back {
            assert!(delivery.redelivered, "a handler may have had it");
            assert_eq!(
                delivery.message.ledger.without_outcome(),
                2,
                "one delivery was lost, one is current"
            );
            settle(&*worker, delivery, Settlement::Complete).await;
        }
    }
}

/// Whether it is a suspect: delivered twice before without an outcome.
fn is_suspect(delivery: &Delivery) -> bool {
    delivery.message.ledger.without_outcome() > 2
}

/// Receives until `wanted` holds for a message; settles nothing else.
async fn until(
    worker: &dyn Subscription,
    others: &mut Vec<Delivery>,
    wanted: impl Fn(&Delivery) -> bool,
) -> Delivery {
    let started = Instant::now();
    loop {
        others.extend(worker.receive(MANY, WAIT).await.unwrap());
        if let Some(at) = others.iter().position(&wanted) {
            return others.swap_remove(at);
        }
        assert!(started.elapsed() < PATIENCE, "the message does not arrive");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn after_the_second_they_are_handed_out_one_at_a_time_and_fresh_ones_continue() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let mut left = send_many(&place).await;
        for _ in 0..2 {
            lose(&place, queue_type, MANY).await;
        }
        let worker = place.worker().await;
        let mut others = Vec::new();
        for number in 0..left.len() {
            let suspect = until(&*worker, &mut others, is_suspect).await;
            assert_eq!(
                suspect.message.ledger.without_outcome(),
                3,
                "two deliveries were lost, one is current"
            );
            assert!(left.remove(suspect.message.id.as_str()), "each suspect arrives once");
            // While it is leased, fresh messages arrive, and no other suspect does.
            place.send(message(&format!("fresh-{number}"))).await.unwrap();
            let sent = Instant::now();
            let fresh = until(&*worker, &mut others, |it| !is_suspect(it)).await;
            assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
            assert!(others.is_empty(), "{others:?}");
            settle(&*worker, fresh, Settlement::Complete).await;
            settle(&*worker, suspect, Settlement::Complete).await;
        }
        assert_eq!(place.transport.depth(&place.queue).await.unwrap().ready, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn only_the_message_that_crashes_its_consumer_reaches_the_limit() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let mut left = send_many(&place).await;
        let mut highest = BTreeMap::<String, u32>::new();
        let mut rounds = 0;
        while highest.get("m-10").is_none_or(|count| *count <= 5) || left.len() > 1 {
            rounds += 1;
            assert!(rounds <= 10, "{highest:?}");
            let process = place.seen_with(options(queue_type));
            let worker = process.worker().await;
            let mut crashed = false;
            // Neighbours that arrive before the crash are completed, the others are lost with it.
            while !crashed {
                let some = worker.receive(NonZeroU32::new(4).unwrap(), WAIT).await.unwrap();
                crashed = some.is_empty() || some.iter().any(|it| it.message.id.as_str() == "m-10");
                for delivery in some {
                    let id = delivery.message.id.to_string();
                    let count = highest.entry(id.clone()).or_default();
                    *count = (*count).max(delivery.message.ledger.without_outcome());
                    if !crashed {
                        settle(&*worker, delivery, Settlement::Complete).await;
                        left.remove(&id);
                    }
                }
            }
            process.transport.close().await;
        }
        let neighbours = highest.iter().filter(|(id, _)| *id != "m-10");
        let most = neighbours.map(|(_, count)| *count).max();
        assert!(most <= Some(3), "a neighbour is blamed: {highest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_suspect_leaves_quarantine_with_an_outcome_and_not_by_a_release() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        place.send(message("m")).await.unwrap();
        for _ in 0..2 {
            lose(&place, queue_type, NonZeroU32::MIN).await;
        }
        let worker = place.worker().await;
        for _ in 0..2 {
            let suspect = one(&*worker).await;
            assert_eq!(suspect.message.ledger.without_outcome(), 3, "a release is not an outcome");
            let released = Instant::now();
            settle(&*worker, suspect, Settlement::Release { after: Duration::ZERO }).await;
            assert!(worker.receive(MANY, Duration::from_millis(500)).await.unwrap().is_empty());
            assert!(released.elapsed() < Duration::from_secs(5));
        }
        settle(&*worker, one(&*worker).await, retry(Duration::ZERO)).await;
        let cleared = one(&*worker).await;
        assert_eq!(
            cleared.message.ledger.without_outcome(),
            1,
            "only the current delivery is without an outcome"
        );
        // Another suspect is leased at the same time: this one did not come from the quarantine queue.
        place.send(message("other")).await.unwrap();
        let mut others = Vec::new();
        let other = until(&*worker, &mut others, |it| it.message.id.as_str() == "other").await;
        settle(&*worker, other, Settlement::Complete).await;
        settle(&*worker, cleared, Settlement::Complete).await;
        assert_eq!(place.transport.depth(&place.queue).await.unwrap().ready, Some(0));
    }
}
