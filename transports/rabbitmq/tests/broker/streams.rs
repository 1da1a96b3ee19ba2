//! Streams keep what is acknowledged, so they are refused before anything is consumed.

use std::error::Error;

use bezoar_core::{ErrorKind, QueueName, SubscribeOptions, Transport};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};

use super::{
    support::{Place, foreign_channel, options},
    vhost::Vhost,
};

async fn declare(name: &str, arguments: &[(&str, AMQPValue)]) {
    let (_connection, channel) = foreign_channel().await;
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert((*name).into(), value.clone());
    }
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(name.into(), durable, table).await.unwrap();
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// With and without the management API.
fn transports() -> [RabbitTransport; 2] {
    let with = options(QueueType::Quorum);
    let without = Options { management_url: None, ..with.clone() };
    [with, without].map(|options| RabbitTransport::open(options).unwrap())
}

/// Replaces the work queue of a provisioned queue.
async fn replaced(arguments: &[(&str, AMQPValue)]) -> QueueName {
    let place = Place::new(QueueType::Quorum).await;
    let (_connection, channel) = foreign_channel().await;
    let name = place.queue.as_str();
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
    declare(name, arguments).await;
    place.queue
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_stream_is_refused_whatever_its_arguments() {
    let stream = ("x-queue-type", text("stream"));
    let limits = [
        stream.clone(),
        ("x-max-length-bytes", AMQPValue::LongLongInt(20_000_000)),
        ("x-max-age", text("7D")),
        ("x-stream-max-segment-size-bytes", AMQPValue::LongInt(1_000_000)),
        ("x-queue-leader-locator", text("client-local")),
    ];
    for arguments in [&[stream.clone()][..], &limits] {
        let queue = replaced(arguments).await;
        for transport in transports() {
            let refused = transport.subscribe(&queue, SubscribeOptions::default()).await;
            let refused = refused.expect_err("it is a stream");
            assert_eq!(refused.kind, ErrorKind::Unusable);
            let told = refused.source().unwrap().to_string();
            assert!(told.contains("is a stream"), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_stream_is_refused_to_a_user_who_may_only_read() {
    let vhost = Vhost::new().await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    let (_connection, channel) = vhost.channel().await;
    let name = place.queue.as_str();
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("stream"));
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
    let user = vhost.user().await;
    vhost.restrict(&user, ".*").await;
    let options = vhost.options_of(&user, QueueType::Quorum);
    let reader = place.seen_with(Options { management_url: None, ..options });
    let refused = reader.transport.subscribe(&reader.queue, SubscribeOptions::default()).await;
    let told = refused.expect_err("it is a stream").source().unwrap().to_string();
    assert!(told.contains("is a stream"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn queues_with_arguments_of_streams_are_accepted() {
    let length = ("x-max-length-bytes", AMQPValue::LongLongInt(20_000_000));
    for kind in ["quorum", "classic"] {
        let queue = replaced(&[("x-queue-type", text(kind)), length.clone()]).await;
        for transport in transports() {
            let worker = transport.subscribe(&queue, SubscribeOptions::default()).await.unwrap();
            worker.close().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_name_of_a_super_stream_is_that_of_an_exchange() {
    let (_connection, channel) = foreign_channel().await;
    let name = format!("super-{:08x}", rand::random::<u32>());
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let exchange = name.as_str().into();
    let none = FieldTable::default();
    channel.exchange_declare(exchange, ExchangeKind::Direct, durable, none).await.unwrap();
    let queue = QueueName::new(name).unwrap();
    for transport in transports() {
        let refused = transport.subscribe(&queue, SubscribeOptions::default()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::QueueNotFound(queue.clone()));
        let told = refused.source().map(ToString::to_string).unwrap_or_default();
        assert!(told.contains("super stream"), "{told}");
    }
}
