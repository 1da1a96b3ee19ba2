//! The broker's consumer timeout ends only the delivery that exceeds it.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use bezoar_core::{Delivery, Reason, Settlement, Subscription};
use bezoar_rabbitmq::Options;
use test_support::rabbitmq::RabbitMq;
use tokio::time::{Instant, sleep};

use super::{
    private_broker,
    support::{PATIENCE, Place, message, one, settle},
};

const TIMEOUT: Duration = Duration::from_secs(6);
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);

/// A broker whose channels look every half second for deliveries that are too old, and not every minute.
fn start(timeout: Duration) -> RabbitMq {
    let broker = private_broker::start();
    let millis = timeout.as_millis();
    let settings = format!(
        "application:set_env(rabbit, consumer_timeout, {millis}), \
         application:set_env(rabbit, channel_tick_interval, 500)."
    );
    broker.control(&["eval", &settings]).unwrap();
    broker
}

async fn place(broker: &RabbitMq, consumer_timeout: Duration) -> Place {
    Place::with(Options {
        consumer_timeout,
        idle: Duration::from_millis(100),
        ..Options::from_url(&broker.url()).unwrap()
    })
    .await
}

async fn some(worker: &dyn Subscription) -> Vec<Delivery> {
    worker.receive(NonZeroU32::new(4).unwrap(), Duration::from_millis(500)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn a_slow_handler_costs_no_other_delivery() {
    const OTHERS: usize = 40;
    let broker = start(TIMEOUT);
    let place = place(&broker, TIMEOUT).await;
    for number in 0..=OTHERS {
        place.send(message(&number.to_string())).await.unwrap();
    }
    let worker = place.worker().await;
    let slow = one(&*worker).await;
    let (started, mut done, mut again) = (Instant::now(), BTreeSet::new(), None);
    // Four at a time, for longer than the timeout.
    while done.len() < OTHERS {
        assert!(started.elapsed() < 2 * PATIENCE, "only {} are done", done.len());
        let held = some(&*worker).await;
        sleep(Duration::from_millis(1_000)).await;
        for it in held {
            if it.message.id == slow.message.id {
                again = Some(it);
                continue;
            }
            assert!(!it.redelivered, "{} is redelivered", it.message.id);
            assert!(done.insert(it.message.id.clone()), "{} comes twice", it.message.id);
            settle(&*worker, it, Settlement::Complete).await;
        }
    }
    assert!(started.elapsed() > TIMEOUT);
    let again = match again {
        Some(again) => again,
        None => one(&*worker).await,
    };
    assert_eq!(again.message.id, slow.message.id);
    assert!(again.redelivered);
    let lost = worker.settle(vec![(slow, Settlement::Complete)]).await.pop().unwrap();
    assert!(lost.is_err(), "the broker has taken it back");
    settle(&*worker, again, Settlement::Complete).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn messages_that_only_wait_are_not_counted_as_delivered() {
    const OTHERS: usize = 4;
    let broker = start(SHORT_TIMEOUT);
    let place = place(&broker, SHORT_TIMEOUT).await;
    for number in 0..=OTHERS {
        place.send(message(&number.to_string())).await.unwrap();
    }
    let worker = place.worker().await;
    let slow = one(&*worker).await;
    sleep(SHORT_TIMEOUT * 2).await; // nobody receives: every slot is busy
    for _ in 0..=OTHERS {
        let held = one(&*worker).await;
        assert_eq!(held.redelivered, held.message.id == slow.message.id, "{}", held.message.id);
        settle(&*worker, held, Settlement::Complete).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn a_message_that_is_always_too_slow_dies_with_that_reason() {
    const DELIVERIES: u32 = 3;
    let broker = start(SHORT_TIMEOUT);
    let place = place(&broker, SHORT_TIMEOUT).await;
    place.send(message("slow")).await.unwrap();
    let worker = place.worker().await;
    for delivery in 1..=DELIVERIES {
        let held = one(&*worker).await;
        assert_eq!(held.message.ledger.without_outcome(), delivery);
    }
    let held = one(&*worker).await;
    // As a worker does that has had enough.
    let reason = Reason::max_deliveries(DELIVERIES);
    settle(&*worker, held, Settlement::DeadLetter { reason, tries: Vec::new() }).await;
    let dead = place.dead().await;
    assert_eq!(
        dead[0].reason.to_string(),
        "delivered 3 times without an outcome, 3 of them ended by the broker's consumer timeout"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn a_timeout_that_is_shorter_than_assumed_is_learned() {
    let broker = start(TIMEOUT);
    let place = place(&broker, Duration::from_secs(30 * 60)).await;
    place.send(message("slow")).await.unwrap();
    let worker = place.worker().await;
    one(&*worker).await;
    let mut again = [one(&*worker).await]; // its channel was closed, and the broker said why
    sleep(TIMEOUT / 2).await;
    place.send(message("other")).await.unwrap();
    let mut other = [one(&*worker).await];
    // The other one has half a timeout left when the broker ends this one.
    let started = Instant::now();
    while worker.extend(&mut again, PATIENCE).await[0].is_ok() {
        assert!(started.elapsed() < PATIENCE, "slow again, and still held");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(worker.extend(&mut other, PATIENCE).await[0].is_ok(), "on another channel");
}
