//! Other programs copy the headers of a message onto a new one: it starts with an empty ledger.

use std::time::Duration;

use bezoar_core::{QueueAdmin, Recognition};
use lapin::{
    BasicProperties,
    message::Delivery,
    options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions},
};

use super::support::{Place, TYPES, dead_letter, foreign_channel, message, one, retry, settle};

/// Takes a message from a queue, as a relay does.
async fn take(queue: &str) -> Delivery {
    let (_connection, channel) = foreign_channel().await;
    let options = BasicGetOptions { no_ack: true };
    let got = channel.basic_get(queue.into(), options).await.unwrap();
    got.expect("the queue has a message").delivery
}

async fn publish(queue: &str, properties: BasicProperties, body: &[u8]) {
    let (_connection, channel) = foreign_channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let options = BasicPublishOptions::default();
    let confirm = channel.basic_publish("".into(), queue.into(), options, body, properties).await;
    confirm.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_ledger_that_a_relay_copied_onto_another_message_is_ignored() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let worker = place.worker().await;
        place.send(message("first")).await.unwrap();
        for _ in 0..2 {
            let held = one(&*worker).await;
            settle(&*worker, held, retry(Duration::ZERO)).await;
        }
        worker.close().await.unwrap();
        let copied = take(place.queue.as_str()).await;
        let other_id = copied.properties.clone().with_message_id("second".into());
        for (properties, body, failed) in [
            (copied.properties.clone(), b"other".as_slice(), 0),
            (other_id, copied.data.as_slice(), 0),
            (copied.properties.clone(), copied.data.as_slice(), 2),
        ] {
            publish(place.queue.as_str(), properties, body).await;
            let worker = place.worker().await;
            let held = one(&*worker).await;
            let (ledger, id) = (&held.message.ledger, &held.message.id);
            assert_eq!(ledger.failed, failed, "{queue_type:?} {id} {body:?}");
            assert_eq!(ledger.history().len(), failed as usize);
            settle(&*worker, held, bezoar_core::Settlement::Complete).await;
            worker.close().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_number_of_a_dead_letter_is_not_that_of_a_message_with_copied_headers() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let worker = place.worker().await;
        place.send(message("first")).await.unwrap();
        let held = one(&*worker).await;
        settle(&*worker, held, dead_letter()).await;
        let queue = format!("{}.dead", place.queue);
        let original = take(&queue).await;
        publish(&queue, original.properties.clone(), &original.data).await;
        publish(&queue, original.properties.clone(), b"other").await;
        while place.transport.depth(&place.queue).await.unwrap().dead != Some(2) {
            tokio::task::yield_now().await;
        }
        let dead = place.dead().await;
        let kept = |body: &[u8]| {
            let found = dead.iter().find(|letter| **letter.message.body.reveal() == *body);
            found.expect("both are in the queue")
        };
        assert_eq!(kept(&original.data).recognition, Recognition::Id);
        assert_ne!(kept(b"other").recognition, Recognition::Id, "{queue_type:?}");
        assert_eq!(kept(b"other").reason.code().as_str(), "unknown");
    }
}
