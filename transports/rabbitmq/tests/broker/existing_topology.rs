//! A topology that exists already, made by another program with names and arguments of its own.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use bezoar_core::{
    ErrorKind, Outgoing, QueueAdmin, QueueName, Settlement, Severity, SubscribeOptions, Transport,
};
use bezoar_rabbitmq::{
    DeadLetterNames, DeadLettering, Options, QueueType, RabbitTransport, UNROUTABLE,
};
use lapin::{
    BasicProperties, Channel, Connection, ExchangeKind,
    options::{
        BasicGetOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};

use super::{
    support::{PATIENCE, Place, dead_letter, message, one, retry, settle},
    vhost::Vhost,
};

/// `orders` with its own `orders.dlx` and `orders.dlq`, all of them classic, without anything of ours.
struct ExistingTopology {
    vhost: Vhost,
    channel: Channel,
    _connection: Connection,
}

impl ExistingTopology {
    async fn new(arguments: &[(&str, &str)]) -> Self {
        let vhost = Vhost::new().await;
        let (_connection, channel) = vhost.channel().await;
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let (topic, none) = (ExchangeKind::Topic, FieldTable::default());
        channel.exchange_declare("orders.dlx".into(), topic, durable, none.clone()).await.unwrap();
        let existing = Self { vhost, channel, _connection };
        existing.declare("orders.dlq", &[]).await;
        existing.declare("orders", arguments).await;
        let (options, key) = (QueueBindOptions::default(), "failed.#".into());
        let bind = existing.channel.queue_bind(
            "orders.dlq".into(),
            "orders.dlx".into(),
            key,
            options,
            none,
        );
        bind.await.unwrap();
        existing
    }

    async fn declare(&self, queue: &str, arguments: &[(&str, &str)]) {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(queue.into(), options, table).await.unwrap();
    }

    fn place(&self, dead_lettering: DeadLettering) -> Place {
        let queue = QueueName::new("orders").unwrap();
        let names = DeadLetterNames {
            exchange: Some("orders.dlx".to_owned()),
            key: Some("failed.order".to_owned()),
            queue: Some("orders.dlq".to_owned()),
        };
        let options = Options {
            dead_lettering,
            dead_letter_names: BTreeMap::from([(queue.clone(), names)]),
            ..self.vhost.options(QueueType::Quorum)
        };
        Place { transport: RabbitTransport::open(options).unwrap(), queue }
    }
}

/// The dead-letter exchange of `orders` as arguments.
const DEAD_LETTERING: [(&str, &str); 2] =
    [("x-dead-letter-exchange", "orders.dlx"), ("x-dead-letter-routing-key", "failed.order")];

async fn works(place: &Place) {
    place.transport.provision(&place.queue).await.unwrap();
    let findings = place.transport.validate(&place.queue).await.unwrap();
    assert!(findings.iter().all(|it| it.severity == Severity::Note), "{findings:?}");
    let worker = place.worker().await;
    place.send(message("retried")).await.unwrap();
    settle(&*worker, one(&*worker).await, retry(Duration::from_millis(100))).await;
    let again = one(&*worker).await;
    assert_eq!(again.message.ledger.failed, 1, "it came back through the delay queues");
    settle(&*worker, again, dead_letter()).await;
    let started = tokio::time::Instant::now();
    while place.transport.depth(&place.queue).await.unwrap().dead != Some(1) {
        assert!(started.elapsed() < PATIENCE, "it does not arrive in orders.dlq");
    }
    assert_eq!(place.transport.queues().await.unwrap(), std::slice::from_ref(&place.queue));
    assert_eq!(place.replay_all().await, 1);
    let replayed = one(&*worker).await;
    assert_eq!(replayed.message.id.as_str(), "retried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_plain_queue_is_consumed_while_dead_letters_are_published() {
    works(&ExistingTopology::new(&[]).await.place(DeadLettering::Publish)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_queue_with_its_own_dead_letter_exchange_is_consumed_in_both_modes() {
    for mode in [DeadLettering::Publish, DeadLettering::Reject] {
        works(&ExistingTopology::new(&DEAD_LETTERING).await.place(mode)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_dead_letter_exchange_by_policy_is_as_good_as_one_by_argument() {
    let existing = ExistingTopology::new(&[]).await;
    let place = existing.place(DeadLettering::Reject);
    place.transport.provision(&place.queue).await.unwrap();
    let refused =
        place.transport.subscribe(&place.queue, SubscribeOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unusable);
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("no dead-letter exchange") && source.contains("policy"), "{source}");

    let definition =
        r#"{"dead-letter-exchange": "orders.dlx", "dead-letter-routing-key": "failed.order"}"#;
    existing.vhost.policy("^orders$", definition).await;
    let started = tokio::time::Instant::now();
    while let Err(failed) =
        place.transport.subscribe(&place.queue, SubscribeOptions::default()).await
    {
        assert!(started.elapsed() < PATIENCE, "{failed:?}");
    }
    works(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn retries_of_a_deleted_queue_hold_up_nobody_and_are_kept() {
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let gone = Place::with(vhost.options(QueueType::Quorum)).await;
    let other = Place::with(vhost.options(QueueType::Quorum)).await;
    let delay = Duration::from_secs(2);
    for number in 0..60 {
        let late = Outgoing::from(message(&format!("gone-{number}"))).after(delay);
        gone.send(late).await.unwrap();
    }
    let options = QueueDeleteOptions::default();
    channel.queue_delete(gone.queue.as_str().into(), options).await.unwrap();
    for number in 0..5 {
        let late = Outgoing::from(message(&format!("other-{number}"))).after(delay * 3 / 2);
        other.send(late).await.unwrap();
    }
    let worker = other.worker().await;
    for _ in 0..5 {
        settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    }
    let kept = Place { queue: QueueName::new(UNROUTABLE).unwrap(), ..other };
    let feed = kept.feed().await;
    let mut letters = Vec::new();
    while letters.len() < 60 {
        let some = feed.next(NonZeroU32::MAX, PATIENCE).await.unwrap();
        assert!(!some.is_empty(), "{} of 60 are kept", letters.len());
        feed.remove(&some.iter().map(|it| it.id).collect::<Vec<_>>()).await.unwrap();
        letters.extend(some);
    }
    assert!(letters.iter().all(|it| it.reason.code().as_str() == "queue-missing"));

    gone.transport.provision(&gone.queue).await.unwrap();
    let messages: Vec<_> = letters.into_iter().map(|it| it.message).collect();
    let replayed = feed.replay(&messages).await;
    assert!(replayed.iter().all(Result::is_ok), "{replayed:?}");
    let started = tokio::time::Instant::now();
    while gone.transport.depth(&gone.queue).await.unwrap().ready != Some(60) {
        assert!(started.elapsed() < PATIENCE, "they do not return to their queue");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn retries_return_to_a_queue_that_was_missing_for_a_while() {
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    for number in 0..5 {
        let late = Outgoing::from(message(&number.to_string())).after(Duration::from_secs(1));
        place.send(late).await.unwrap();
    }
    let options = QueueDeleteOptions::default();
    channel.queue_delete(place.queue.as_str().into(), options).await.unwrap();
    let unroutable = QueueName::new(UNROUTABLE).unwrap();
    let started = tokio::time::Instant::now();
    while place.transport.depth(&unroutable).await.unwrap().ready != Some(5) {
        assert!(started.elapsed() < PATIENCE, "they do not leave the delay queue");
    }
    place.transport.provision(&place.queue).await.unwrap();
    let worker = place.worker().await;
    for _ in 0..5 {
        settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    }
    assert_eq!(place.transport.depth(&unroutable).await.unwrap().ready, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_retry_returns_to_its_own_queue_whatever_exchange_it_came_by() {
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let place = Place::with(vhost.options(QueueType::Quorum)).await;
    let other = Place::with(vhost.options(QueueType::Quorum)).await;
    let none = FieldTable::default();
    let (fanout, plain) = (ExchangeKind::Fanout, ExchangeDeclareOptions::default());
    channel.exchange_declare("orders".into(), fanout, plain, none.clone()).await.unwrap();
    for queue in [&place.queue, &other.queue] {
        let (queue, exchange) = (queue.as_str().into(), "orders".into());
        let bound = QueueBindOptions::default();
        channel.queue_bind(queue, exchange, "".into(), bound, none.clone()).await.unwrap();
    }
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    channel.basic_publish("orders".into(), "".into(), options, b"body", properties).await.unwrap();
    let worker = place.worker().await;
    settle(&*worker, one(&*worker).await, retry(Duration::from_secs(1))).await;
    worker.close().await.unwrap();
    let deleted = QueueDeleteOptions::default();
    channel.queue_delete(place.queue.as_str().into(), deleted).await.unwrap();
    let unroutable = QueueName::new(UNROUTABLE).unwrap();
    let started = tokio::time::Instant::now();
    while place.transport.depth(&unroutable).await.unwrap().ready != Some(1) {
        assert!(started.elapsed() < PATIENCE, "it does not leave the delay queue");
    }
    // The other queue is still bound: the message must neither go there nor count as returned.
    let kept = Place { transport: other.transport.clone(), queue: unroutable.clone() };
    let feed = kept.feed().await;
    let letters = feed.next(NonZeroU32::MAX, PATIENCE).await.unwrap();
    assert_eq!(letters.len(), 1);
    drop(feed);
    assert_eq!(other.transport.depth(&other.queue).await.unwrap().ready, Some(1));

    place.transport.provision(&place.queue).await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    assert_eq!(held.message.ledger.failed, 1);
    settle(&*worker, held, Settlement::Complete).await;
    assert_eq!(other.transport.depth(&other.queue).await.unwrap().ready, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn failed_messages_of_another_framework_are_taken_in_and_returned_to_their_queue() {
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    for queue in ["error", "Sales"] {
        channel.queue_declare(queue.into(), durable, FieldTable::default()).await.unwrap();
    }
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("NServiceBus.FailedQ", "Sales"),
        ("NServiceBus.ExceptionInfo.ExceptionType", "System.TimeoutException"),
        ("NServiceBus.ExceptionInfo.Message", "CANARY"),
    ] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = BasicProperties::default().with_headers(headers);
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), "error".into(), options, b"{}", properties).await.unwrap();

    let queue = QueueName::new("nservicebus").unwrap();
    let names = DeadLetterNames { queue: Some("error".to_owned()), ..Default::default() };
    let options = Options {
        dead_letter_names: BTreeMap::from([(queue.clone(), names)]),
        ..vhost.options(QueueType::Classic)
    };
    let place = Place { transport: RabbitTransport::open(options).unwrap(), queue };
    let depth = place.transport.depth(&place.queue).await.unwrap();
    assert_eq!((depth.ready, depth.dead), (None, Some(1)), "nothing but its dead letters exists");
    let feed = place.feed().await;
    let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().pop().unwrap();
    assert_eq!(letter.reason.code().as_str(), "System.TimeoutException");
    assert_eq!(letter.message.ledger.history()[0].detail.reveal(), "CANARY");
    feed.remove(&[letter.id]).await.unwrap();
    feed.replay(&[letter.message]).await.pop().unwrap().unwrap();
    let back = channel.basic_get("Sales".into(), BasicGetOptions { no_ack: true }).await.unwrap();
    assert_eq!(back.expect("it is back in its queue").data, b"{}");
}
