//! A refused settlement keeps its lease, says why, and succeeds after the repair.

use std::{error::Error, time::Duration};

use bezoar_core::{Delivery, ErrorKind, Settlement, Subscription};
use lapin::{
    Channel,
    options::{ExchangeDeleteOptions, QueueDeleteOptions},
};

use super::{
    support::{Place, TYPES, dead_letter, is_empty, message, one, retry, settle},
    vhost::Vhost,
};

const SOON: Duration = Duration::from_millis(300);

/// Asserts that the settlement is refused for this reason and that the delivery stays leased. Returns the
/// text of the error.
async fn refuse(
    worker: &dyn Subscription,
    held: &Delivery,
    settlement: Settlement,
    kind: ErrorKind,
) -> String {
    let refused = worker.settle(vec![(held.copy(), settlement)]).await.pop().unwrap().unwrap_err();
    let told = refused.source().map(ToString::to_string).unwrap_or_default();
    assert_eq!(refused.kind, kind, "{told}");
    assert!(is_empty(worker).await, "it is not delivered again");
    let extended = worker.extend(&mut [held.copy()], SOON).await.pop().unwrap();
    assert!(extended.is_ok(), "{extended:?}");
    told
}

/// Settles after the repair: one copy arrives, and its ledger has one attempt.
async fn retried_once(worker: &dyn Subscription, held: Delivery, after: Duration) {
    settle(worker, held, retry(after)).await;
    let again = one(worker).await;
    let ledger = &again.message.ledger;
    assert_eq!((ledger.acquired, ledger.failed, ledger.without_outcome()), (2, 1, 1));
    assert!(!again.redelivered);
    settle(worker, again, Settlement::Complete).await;
    assert!(is_empty(worker).await, "there is one copy");
}

async fn delete_delay_queues(channel: &Channel) {
    for (level, digit) in (0..10).flat_map(|level| (1..8).map(move |digit| (level, digit))) {
        let name = format!("bezoar.delay.{level}.{digit}");
        channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
    }
}

async fn delete_exchange(channel: &Channel, name: &str) {
    channel.exchange_delete(name.into(), ExchangeDeleteOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_retry_without_delay_queues_is_kept_until_they_exist_again() {
    for queue_type in TYPES {
        let vhost = Vhost::new().await;
        let place = Place::with(vhost.options(queue_type)).await;
        let (_connection, channel) = vhost.channel().await;
        place.send(message("m")).await.unwrap();
        let worker = place.worker().await;
        let held = one(&*worker).await;
        delete_delay_queues(&channel).await;
        let told = refuse(&*worker, &held, retry(SOON), ErrorKind::Unusable).await;
        assert!(told.contains("bezoar.delay.") && told.contains("bezoar provision"), "{told}");
        place.transport.repair(&place.queue).await.unwrap();
        retried_once(&*worker, held, SOON).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_retry_without_delay_exchanges_is_kept_until_they_exist_again() {
    let vhost = Vhost::new().await;
    let place = Place::with(vhost.options(TYPES[0])).await;
    let (_connection, channel) = vhost.channel().await;
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    for level in 0..10 {
        delete_exchange(&channel, &format!("bezoar.delay.{level}")).await;
    }
    let told = refuse(&*worker, &held, retry(SOON), ErrorKind::Unusable).await;
    assert!(told.contains("bezoar.delay.0") && told.contains("bezoar provision"), "{told}");
    place.transport.repair(&place.queue).await.unwrap();
    retried_once(&*worker, held, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_dead_letter_without_its_exchange_is_kept_and_its_neighbours_are_settled() {
    let vhost = Vhost::new().await;
    let place = Place::with(vhost.options(TYPES[0])).await;
    let (_connection, channel) = vhost.channel().await;
    for id in ["dead", "retried"] {
        place.send(message(id)).await.unwrap();
    }
    let worker = place.worker().await;
    let (held, neighbour) = (one(&*worker).await, one(&*worker).await);
    delete_exchange(&channel, "bezoar.dead").await;
    let both = vec![(held.copy(), dead_letter()), (neighbour, retry(Duration::ZERO))];
    let results = worker.settle(both).await;
    assert!(results[0].is_err() && results[1].is_ok(), "{results:?}");
    settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    let told = refuse(&*worker, &held, dead_letter(), ErrorKind::Unusable).await;
    assert!(told.contains("bezoar.dead") && told.contains("bezoar provision"), "{told}");
    place.transport.repair(&place.queue).await.unwrap();
    settle(&*worker, held, dead_letter()).await;
    let dead = place.dead().await;
    let ids: Vec<_> = dead.iter().map(|it| it.message.id.as_str()).collect();
    assert_eq!(ids, ["dead"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_settlement_without_a_permission_is_kept_until_it_is_granted() {
    for (queue_type, after) in TYPES.into_iter().zip([Duration::ZERO, SOON]) {
        let vhost = Vhost::new().await;
        let place = Place::with(vhost.options(queue_type)).await;
        let user = vhost.user().await;
        let restricted = place.seen_with(vhost.options_of(&user, queue_type));
        place.send(message("m")).await.unwrap();
        let worker = restricted.worker().await;
        let held = one(&*worker).await;
        vhost.restrict(&user, ".*").await;
        let told = refuse(&*worker, &held, retry(after), ErrorKind::NotAuthorized).await;
        assert!(told.contains("permission"), "{told}");
        vhost.permit(&user).await;
        retried_once(&*worker, held, after).await;
    }
}
