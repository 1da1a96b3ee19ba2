//! A work queue that is full holds up only its own retries.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use bezoar_core::{Outgoing, QueueAdmin, Settlement, Severity, Subscription, Transport};
use bezoar_rabbitmq::{Options, QueueType, ReturnQueues};
use lapin::{
    Channel,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::time::{Instant, sleep};

use super::{
    support::{PATIENCE, Place, TYPES, message, one, settle},
    vhost::Vhost,
};

/// How many messages the full queue has room for.
const ROOM: i64 = 40;
/// The broker moves 32 at once. The first 32 may still fit into a quorum queue, whose limit is not exact, and as many
/// more must be refused.
const RETRIES: usize = 120;
const DELAY: Duration = Duration::from_secs(2);

/// Creates a queue of another program that refuses messages when it is full.
async fn declare_limited(channel: &Channel, name: &str, queue_type: QueueType) {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text(queue_type.as_str()));
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(ROOM));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
}

/// A place whose queue existed before, with a limit.
async fn limited(vhost: &Vhost, options: Options, queue_type: QueueType) -> Place {
    let (_connection, channel) = vhost.channel().await;
    let place = Place::with(vhost.options(queue_type)).await;
    let name = place.queue.as_str();
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
    declare_limited(&channel, name, queue_type).await;
    let place = place.seen_with(options);
    place.transport.provision(&place.queue).await.unwrap();
    place
}

async fn fill(place: &Place) {
    while place.send(message("filler")).await.is_ok() {}
}

async fn send_delayed(place: &Place, count: usize) {
    let delayed = |number| Outgoing::from(message(&format!("m-{number}"))).after(DELAY);
    let batch: Vec<_> = (0..count).map(delayed).collect();
    for sent in place.transport.send(&(&place.queue).into(), &batch).await {
        sent.unwrap();
    }
}

/// Completes messages until all of these have come.
async fn complete_all(worker: &dyn Subscription, count: usize) {
    let (started, mut ids) = (Instant::now(), BTreeSet::new());
    while ids.len() < count {
        assert!(started.elapsed() < 3 * PATIENCE, "only {} of {count} have come", ids.len());
        let some = worker.receive(NonZeroU32::new(16).unwrap(), Duration::from_secs(1)).await;
        for held in some.unwrap() {
            ids.extend(Some(held.message.id.clone()).filter(|id| id.as_str() != "filler"));
            settle(worker, held, Settlement::Complete).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn retries_of_a_full_queue_hold_up_no_others_and_arrive_when_there_is_room() {
    for queue_type in TYPES {
        let vhost = Vhost::new().await;
        let full = limited(&vhost, vhost.options(queue_type), queue_type).await;
        let other = Place::with(vhost.options(queue_type)).await;
        fill(&full).await;
        send_delayed(&full, RETRIES).await;
        send_delayed(&other, 5).await; // in the same delay queue, behind the others
        let worker = other.worker().await;
        for _ in 0..5 {
            settle(&*worker, one(&*worker).await, Settlement::Complete).await;
        }
        complete_all(&*full.worker().await, RETRIES).await;
    }
}

/// Without the management API it is unknown whether the queue has a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_queue_of_another_program_gets_a_return_queue_if_its_limit_is_unknown() {
    let vhost = Vhost::new().await;
    let options = Options { management_url: None, ..vhost.options(QueueType::Quorum) };
    let full = limited(&vhost, options.clone(), QueueType::Quorum).await;
    let ours = Place::with(options).await;
    let names = vhost.queue_names().await;
    assert!(names.contains(&format!("bezoar.return.{}", full.queue)), "{names:?}");
    assert!(!names.contains(&format!("bezoar.return.{}", ours.queue)), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_limit_by_policy_is_an_error_until_the_queue_is_provisioned_again() {
    let vhost = Vhost::new().await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    vhost.policy(&format!("^{}$", place.queue), r#"{"max-length": 1000}"#).await;
    let started = Instant::now();
    let problem = loop {
        // The broker shows a new policy after a moment.
        let found = place.transport.validate(&place.queue).await.unwrap();
        let worst = found.into_iter().find(|it| it.severity == Severity::Error);
        if let Some(worst) = worst {
            break worst.problem;
        }
        assert!(started.elapsed() < PATIENCE, "it is not found");
    };
    assert!(problem.contains("may be full and has no return queue"), "{problem}");
    place.transport.provision(&place.queue).await.unwrap();
    let found = place.transport.validate(&place.queue).await.unwrap();
    assert!(found.iter().all(|it| it.severity == Severity::Note), "{found:?}");
    send_delayed(&place, 3).await;
    complete_all(&*place.worker().await, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn every_queue_may_have_a_return_queue_and_a_deleted_one_is_replaced_by_the_direct_route() {
    let vhost = Vhost::new().await;
    let return_queues = ReturnQueues::Always;
    let options = Options { return_queues, ..vhost.options(QueueType::Quorum) };
    let place = Place::with(options).await;
    send_delayed(&place, 3).await;
    let worker = place.worker().await;
    complete_all(&*worker, 3).await;
    let found = place.transport.validate(&place.queue).await.unwrap();
    assert!(found.iter().all(|it| it.severity == Severity::Note), "{found:?}");
    let (_connection, channel) = vhost.channel().await;
    let name = format!("bezoar.return.{}", place.queue);
    channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    send_delayed(&place, 3).await; // on its way to a queue that is gone, it comes back from `bezoar.unroutable`
    complete_all(&*worker, 3).await;
}

/// Only classic queues can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_queue_that_dead_letters_what_it_refuses_is_found_because_it_multiplies_retries() {
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let place = limited(&vhost, vhost.options(QueueType::Classic), QueueType::Classic).await;
    let sound = place.transport.validate(&place.queue).await.unwrap();
    assert!(sound.iter().all(|it| it.severity == Severity::Note), "{sound:?}");
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(1));
    arguments.insert("x-overflow".into(), text("reject-publish-dlx"));
    arguments.insert("x-dead-letter-exchange".into(), text("bezoar.dead"));
    arguments.insert("x-dead-letter-routing-key".into(), text(place.queue.as_str()));
    let name = place.queue.as_str();
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
    place.transport.provision(&place.queue).await.unwrap();
    let found = place.transport.validate(&place.queue).await.unwrap();
    let found: Vec<_> = found.iter().filter(|it| it.severity == Severity::Error).collect();
    let [found] = found[..] else { panic!("{found:?}") };
    assert!(found.problem.contains("becomes another dead letter"), "{found:?}");
    fill(&place).await;
    let dead = async || place.transport.depth(&place.queue).await.unwrap().dead.unwrap();
    let (before, started) = (dead().await, Instant::now());
    send_delayed(&place, 1).await;
    while dead().await < before + 2 {
        assert!(started.elapsed() < 2 * PATIENCE, "the broker has changed: one retry, one copy");
        sleep(Duration::from_millis(500)).await;
    }
}
