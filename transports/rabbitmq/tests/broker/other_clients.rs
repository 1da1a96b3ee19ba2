//! Messages of other clients are handled, dead-lettered and replayed without losing a property.

use std::time::Duration;

use bezoar_core::QueueAdmin;
use bezoar_rabbitmq::{DeadLettering, Options};
use lapin::{
    BasicProperties,
    options::{BasicGetOptions, BasicPublishOptions},
    types::{AMQPValue, FieldArray, FieldTable},
};

use super::support::{
    Place, TYPES, dead_letter, foreign_channel, message, one, options, retry, settle,
};

/// Every property that a client can set.
fn properties() -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("tenant".into(), AMQPValue::LongString("St. Mary's".into()));
    headers.insert("count".into(), AMQPValue::LongInt(-7));
    headers.insert("x-own".into(), AMQPValue::Boolean(true));
    let nobody = AMQPValue::LongString("nobody-listens-here".into());
    headers.insert("CC".into(), AMQPValue::FieldArray(FieldArray::from(vec![nobody])));
    BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("identity".into())
        .with_headers(headers)
        .with_delivery_mode(1)
        .with_correlation_id("c-7".into())
        .with_reply_to("replies".into())
        .with_expiration("600000".into())
        .with_timestamp(1_700_000_000)
        .with_user_id("guest".into())
        .with_app_id("lab".into())
}

async fn publish(place: &Place) {
    let (_connection, channel) = foreign_channel().await;
    let key = place.queue.as_str().into();
    let options = BasicPublishOptions::default();
    let confirm = channel.basic_publish("".into(), key, options, b"\xffplain", properties()).await;
    confirm.unwrap().await.unwrap();
    channel.close(200, "".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_message_of_another_client_keeps_its_properties_through_everything() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        publish(&place).await;
        let worker = place.worker().await;
        let first = one(&*worker).await;
        assert_eq!(first.message.headers["tenant"].reveal(), "St. Mary's");
        assert_eq!(first.message.correlation_id.as_ref().unwrap().as_str(), "c-7");
        let id = first.message.id.clone();
        settle(&*worker, first, retry(Duration::from_millis(50))).await;
        let second = one(&*worker).await;
        assert_eq!(second.message.id, id, "an assigned id is kept");
        settle(&*worker, second, dead_letter()).await;
        let dead = place.dead().await;
        assert_eq!(dead[0].message.id, id);
        assert_eq!(place.replay_all().await, 1);
        worker.close().await.unwrap();

        let (_connection, channel) = foreign_channel().await;
        let name = place.queue.as_str();
        let got = channel.basic_get(name.into(), BasicGetOptions::default()).await.unwrap();
        let got = got.expect("the message was replayed").delivery;
        let (sent, got, body) = (properties(), got.properties, got.data);
        assert_eq!(body, b"\xffplain");
        assert_eq!(got.content_encoding(), sent.content_encoding());
        assert_eq!(got.reply_to(), sent.reply_to());
        assert_eq!(got.app_id(), sent.app_id());
        assert_eq!(got.expiration(), sent.expiration());
        assert_eq!(got.timestamp(), sent.timestamp());
        assert_eq!(got.message_id(), sent.message_id());
        let headers = got.headers().as_ref().unwrap().inner();
        assert_eq!(headers["count"], AMQPValue::LongInt(-7));
        assert_eq!(headers["x-own"], AMQPValue::Boolean(true));
        assert!(!headers.contains_key("x-death"), "no header that looks like a cycle");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_rejected_message_is_dead_lettered_by_the_broker_and_can_be_replayed() {
    for queue_type in TYPES {
        let options = Options { dead_lettering: DeadLettering::Reject, ..options(queue_type) };
        let place = Place::with(options).await;
        place.send(message("m")).await.unwrap();
        let worker = place.worker().await;
        let held = one(&*worker).await;
        settle(&*worker, held, dead_letter()).await;
        let started = tokio::time::Instant::now();
        while place.transport.depth(&place.queue).await.unwrap().dead != Some(1) {
            assert!(started.elapsed() < Duration::from_secs(1), "a rejection takes a second (D9)");
        }
        let (first, again) = (place.dead().await.remove(0), place.dead().await.remove(0));
        assert_eq!(first.reason.code().as_str(), "rejected");
        assert_eq!((first.digest(), first.at), (again.digest(), again.at), "the same each time");
        assert_eq!(place.replay_all().await, 1);
        assert_eq!(one(&*worker).await.message.ledger.replayed, 1);
    }
}

/// The header `x-tenant` is its sender's, whatever it looks like; the broker's own names are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn other_clients_see_the_headers_of_a_sender() {
    let place = Place::new(TYPES[0]).await;
    let sent = message("m").with_header("x-tenant", "lab 3").with_header("x-death", "mine");
    place.send(sent.clone()).await.unwrap();
    let (_connection, channel) = foreign_channel().await;
    let name = place.queue.as_str();
    let got = channel.basic_get(name.into(), BasicGetOptions::default()).await.unwrap();
    let got = got.expect("the message was sent").delivery;
    let headers = got.properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers.get("x-tenant"), Some(&AMQPValue::LongString("lab 3".into())));
    assert_eq!(headers.get("x-death"), None, "the broker would act on it");
    channel.close(200, "".into()).await.unwrap();
    let worker = place.worker().await;
    assert_eq!(one(&*worker).await.message.headers, sent.headers);
}
