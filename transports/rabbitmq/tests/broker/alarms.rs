//! A memory or disk alarm of the broker is a finding, and doubles nothing.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use bezoar_core::{Finding, QueueAdmin, Settlement, Severity};
use bezoar_rabbitmq::Options;
use test_support::rabbitmq::RabbitMq;
use tokio::time::{Instant, timeout};

use super::{
    private_broker,
    support::{PATIENCE, Place, dead_letter, is_empty, message, one, settle},
};

fn alarm(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|it| it.severity == Severity::Error && it.problem.contains("disk space"))
}

async fn place(broker: &RabbitMq) -> Place {
    Place::with(Options {
        management_url: Some(broker.management_url().into()),
        confirm_timeout: Duration::from_secs(2),
        ..Options::from_url(&broker.url()).unwrap()
    })
    .await
}

/// Raises or ends an alarm, and waits until the broker shows it.
async fn set_alarm(broker: &RabbitMq, place: &Place, expected: bool) {
    let limit = if expected { "900GB" } else { "1MB" };
    broker.control(&["set_disk_free_limit", limit]).unwrap();
    let started = Instant::now();
    while alarm(&place.transport.validate(&place.queue).await.unwrap()).is_some() != expected {
        assert!(started.elapsed() < 3 * PATIENCE, "an alarm: {}", !expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn an_alarm_is_found_until_it_ends() {
    let broker = private_broker::start();
    let place = place(&broker).await;
    assert_eq!(alarm(&place.transport.validate(&place.queue).await.unwrap()), None);
    set_alarm(&broker, &place, true).await;
    set_alarm(&broker, &place, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn a_worker_that_stops_during_an_alarm_doubles_nothing() {
    const COUNT: usize = 100;
    let broker = private_broker::start();
    let place = place(&broker).await;
    for number in 0..COUNT {
        place.send(message(&number.to_string())).await.unwrap();
    }
    let worker = place.worker().await;
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    set_alarm(&broker, &place, true).await;
    worker.close().await.unwrap();
    set_alarm(&broker, &place, false).await;
    let worker = place.worker().await;
    let mut ids = BTreeSet::new();
    for _ in 1..COUNT {
        let held = one(&*worker).await;
        assert!(ids.insert(held.message.id.clone()), "{} arrives twice", held.message.id);
        settle(&*worker, held, Settlement::Complete).await;
    }
    assert!(is_empty(&*worker).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn redelivered_messages_are_not_doubled_by_an_alarm() {
    const COUNT: usize = 10;
    let broker = private_broker::start();
    let place = place(&broker).await;
    for number in 0..COUNT {
        place.send(message(&number.to_string())).await.unwrap();
    }
    let worker = place.worker().await;
    one(&*worker).await;
    place.transport.close().await; // all of them are redelivered, flagged
    set_alarm(&broker, &place, true).await;
    let worker = place.worker().await;
    // Long enough to send a copy again that was not confirmed.
    let some = worker.receive(NonZeroU32::MIN, Duration::from_secs(10)).await.unwrap();
    assert!(some.is_empty(), "it is not counted yet that it was delivered");
    set_alarm(&broker, &place, false).await;
    let mut ids = BTreeSet::new();
    for _ in 0..COUNT {
        let held = one(&*worker).await;
        assert!(ids.insert(held.message.id.clone()), "{} arrives twice", held.message.id);
        settle(&*worker, held, Settlement::Complete).await;
    }
    assert!(is_empty(&*worker).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ installed; `cargo xtask test` installs it"]
async fn dead_letters_are_not_doubled_by_an_alarm() {
    const COUNT: usize = 10;
    let broker = private_broker::start();
    let place = place(&broker).await;
    let worker = place.worker().await;
    let mut held = Vec::new();
    for number in 0..COUNT {
        place.send(message(&number.to_string())).await.unwrap();
        held.push((one(&*worker).await, dead_letter()));
    }
    set_alarm(&broker, &place, true).await;
    let settling = tokio::spawn(async move {
        // As a worker does: what is not known to be done is done again.
        while !held.is_empty() {
            let kept: Vec<_> = held.iter().map(|(it, end)| (it.copy(), end.clone())).collect();
            let results = worker.settle(held).await;
            held = kept
                .into_iter()
                .zip(results)
                .filter(|(_, it)| it.is_err())
                .unzip::<_, _, Vec<_>, Vec<_>>()
                .0;
        }
    });
    tokio::time::sleep(Duration::from_secs(6)).await; // three times the limit for a confirm
    set_alarm(&broker, &place, false).await;
    timeout(PATIENCE, settling).await.expect("settled after the alarm").unwrap();
    assert_eq!(place.dead().await.len(), COUNT);
}
