//! A wrong topology is found before a message is lost.

use bezoar_core::{ErrorKind, QueueAdmin};
use bezoar_rabbitmq::QueueType;
use lapin::{options::QueueDeleteOptions, types::FieldTable};

use super::support::{Place, dead_letter, foreign_channel, message, one, settle};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_dead_letter_queue_that_is_unbound_under_a_worker_loses_nothing() {
    let place = Place::new(QueueType::Quorum).await;
    let worker = place.worker().await;
    let (_connection, channel) = foreign_channel().await;
    let (queue, dead) = (place.queue.as_str(), format!("{}.dead", place.queue));
    let unbind = channel.queue_unbind(
        dead.as_str().into(),
        "bezoar.dead".into(),
        queue.into(),
        FieldTable::default(),
    );
    unbind.await.unwrap();
    place.send(message("m")).await.unwrap();
    let held = one(&*worker).await;
    let again = held.copy();
    let failed = worker.settle(vec![(held, dead_letter())]).await.pop().unwrap().unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Unusable);
    place.transport.provision(&place.queue).await.unwrap();
    settle(&*worker, again, dead_letter()).await;
    assert_eq!(place.transport.depth(&place.queue).await.unwrap().dead, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_queue_that_is_deleted_under_a_worker_is_named() {
    let place = Place::new(QueueType::Classic).await;
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    one(&*worker).await;
    let (_connection, channel) = foreign_channel().await;
    let delete = channel.queue_delete(place.queue.as_str().into(), QueueDeleteOptions::default());
    delete.await.unwrap();
    let wait = std::time::Duration::from_secs(5);
    let failed = worker.receive(std::num::NonZeroU32::MIN, wait).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::QueueNotFound(place.queue.clone()));
    assert!(place.send(message("m")).await.is_err(), "an unroutable message is refused");
}
