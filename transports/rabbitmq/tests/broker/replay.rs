//! Dead letters are replayed unchanged to the exchange and routing key that they came from.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{Message, QueueAdmin, Settlement, catalogue::OperationId};
use bezoar_rabbitmq::DeadLettering;
use lapin::{
    BasicProperties, Channel, Connection, ExchangeKind,
    message::Delivery,
    options::{
        BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
        ExchangeDeleteOptions, QueueBindOptions,
    },
    types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable},
};

use super::support::{PATIENCE, Place, TYPES, dead_letter, foreign_channel, one, retry, settle};

/// A queue behind an exchange of its own, as other programs use it.
struct Behind {
    place: Place,
    exchange: String,
    channel: Channel,
    _connection: Connection,
}

impl Behind {
    async fn new(place: Place) -> Self {
        let (connection, channel) = foreign_channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let exchange = format!("orders-{}", place.queue);
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let (name, none) = (exchange.as_str(), FieldTable::default());
        channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, none).await.unwrap();
        let (queue, none) = (place.queue.as_str(), FieldTable::default());
        let bind = channel.queue_bind(
            queue.into(),
            name.into(),
            "new.#".into(),
            QueueBindOptions::default(),
            none,
        );
        bind.await.unwrap();
        Self { place, exchange, channel, _connection: connection }
    }

    async fn publish(&self, properties: BasicProperties) {
        let (exchange, key) = (self.exchange.as_str().into(), "new.eu".into());
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let confirm =
            self.channel.basic_publish(exchange, key, options, b"\xffplain", properties).await;
        assert!(confirm.unwrap().await.unwrap().is_ack());
    }

    /// Dead-letters the only message, after a retry that passed the delay queues.
    async fn set_aside(&self) {
        let worker = self.place.worker().await;
        let held = one(&*worker).await;
        let after = Duration::from_millis(30);
        settle(&*worker, held, Settlement::Release { after }).await;
        let held = one(&*worker).await;
        settle(&*worker, held, dead_letter()).await;
        worker.close().await.unwrap();
    }

    /// The only dead letter, removed from the broker and kept as a store would keep it.
    async fn taken(&self) -> Message {
        let feed = self.place.transport.dead_letter_feed(&self.place.queue).await.unwrap().unwrap();
        let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().pop().unwrap();
        feed.remove(&[letter.id]).await.unwrap();
        let mut message = letter.message;
        message.ledger.replay();
        message
    }

    async fn replay(&self, message: Message) {
        let queue = &self.place.queue;
        self.place.transport.replay_messages(queue, &[message]).await.pop().unwrap().unwrap();
    }

    async fn got(&self) -> Delivery {
        let queue = self.place.queue.as_str();
        let options = BasicGetOptions { no_ack: true };
        let got = self.channel.basic_get(queue.into(), options).await.unwrap();
        got.expect("the message was replayed").delivery
    }
}

/// Every property of AMQP, and headers of every type.
fn everything() -> BasicProperties {
    let mut headers = FieldTable::default();
    let flat = vec![
        AMQPValue::Boolean(true),
        AMQPValue::ShortShortInt(-1),
        AMQPValue::ShortShortUInt(200),
        AMQPValue::ShortInt(-300),
        AMQPValue::ShortUInt(60_000),
        AMQPValue::LongInt(-70_000),
        AMQPValue::LongUInt(4_000_000_000),
        AMQPValue::LongLongInt(i64::MIN),
        AMQPValue::Float(0.1),
        AMQPValue::Double(0.1 + 0.2),
        AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 }),
        AMQPValue::LongString("St. Mary's 🏥".into()),
        AMQPValue::LongString(b"\xff\x00".to_vec().into()),
        AMQPValue::Timestamp(1_700_000_000),
        AMQPValue::ByteArray(ByteArray::from(vec![0, 255])),
        AMQPValue::Void,
    ];
    let array = AMQPValue::FieldArray(FieldArray::from(flat.clone()));
    let mut table = FieldTable::default();
    table.insert("inner".into(), array.clone());
    let nested = [array, AMQPValue::FieldTable(table)];
    for (number, value) in flat.into_iter().chain(nested).enumerate() {
        headers.insert(format!("h-{number:02}").into(), value.clone());
        headers.insert(format!("x-own-{number:02}").into(), value);
    }
    BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("identity".into())
        .with_headers(headers)
        .with_delivery_mode(2)
        .with_priority(3)
        .with_correlation_id("c-7".into())
        .with_reply_to("replies".into())
        .with_expiration("600000".into())
        .with_message_id("m-1".into())
        .with_timestamp(1_700_000_000)
        .with_type("lab.result".into())
        .with_user_id("guest".into())
        .with_app_id("lab".into())
        .with_cluster_id("c".into())
}

/// The fields that differ from `sent`, except those that the README says are added: a time, the counters of a
/// message with a history, and the broker's own count.
fn differences(got: BasicProperties, sent: &BasicProperties) -> Vec<String> {
    const ADDED: [&str; 6] = [
        "bezoar-binding",
        "bezoar-time",
        "bezoar-acquired",
        "bezoar-released",
        "bezoar-replayed",
        "x-delivery-count",
    ];
    let headers = |of: &BasicProperties| of.headers().as_ref().unwrap().inner().clone();
    let (mut got_headers, sent_headers) = (headers(&got), headers(sent));
    got_headers.retain(|name, _| !ADDED.contains(&name.as_str()));
    let names: std::collections::BTreeSet<_> =
        got_headers.keys().chain(sent_headers.keys()).collect();
    let differs = names
        .into_iter()
        .filter(|name| got_headers.get(name.as_str()) != sent_headers.get(name.as_str()));
    let mut found: Vec<_> = differs.map(ToString::to_string).collect();
    let got = got.with_headers(FieldTable::default());
    if got != sent.clone().with_headers(FieldTable::default()) {
        found.push(format!("{got:?}"));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_foreign_message_returns_to_its_exchange_with_every_property() {
    for queue_type in TYPES {
        for how in [DeadLettering::Publish, DeadLettering::Reject] {
            let mut place = Place::new(queue_type).await;
            place.transport = place.transport.dead_lettering(how);
            let behind = Behind::new(place).await;
            behind.publish(everything()).await;
            behind.set_aside().await;
            let taken = behind.taken().await;
            behind.replay(taken).await;
            let got = behind.got().await;
            let by = (got.exchange.as_str(), got.routing_key.as_str());
            assert_eq!(by, (behind.exchange.as_str(), "new.eu"), "{how:?}");
            assert_eq!(got.data, b"\xffplain");
            let differences = differences(got.properties, &everything());
            assert_eq!(differences, [""; 0], "{queue_type:?} {how:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_replay_on_the_broker_goes_the_same_way() {
    for queue_type in TYPES {
        let behind = Behind::new(Place::new(queue_type).await).await;
        behind.publish(everything()).await;
        behind.set_aside().await;
        assert_eq!(behind.place.replay_all().await, 1);
        let got = behind.got().await;
        assert_eq!(got.exchange.as_str(), behind.exchange);
        assert_eq!(differences(got.properties, &everything()), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn what_its_exchange_no_longer_takes_goes_to_the_queue_and_remembers() {
    for queue_type in TYPES {
        let behind = Behind::new(Place::new(queue_type).await).await;
        behind.publish(everything()).await;
        behind.set_aside().await;
        let taken = behind.taken().await;
        let (queue, exchange) = (behind.place.queue.as_str(), behind.exchange.as_str());
        let none = FieldTable::default();
        let unbind =
            behind.channel.queue_unbind(queue.into(), exchange.into(), "new.#".into(), none);
        unbind.await.unwrap();
        behind.replay(taken.clone()).await;
        let unrouted = behind.got().await;
        let delete =
            behind.channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default());
        delete.await.unwrap();
        behind.replay(taken).await;
        for got in [unrouted, behind.got().await] {
            assert_eq!(got.exchange.as_str(), "");
            let headers = got.properties.headers().as_ref().unwrap().inner();
            let remembered = AMQPValue::LongString(exchange.into());
            assert_eq!(headers["bezoar-exchange"], remembered);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn one_that_cannot_be_given_back_fails_alone() {
    let behind = Behind::new(Place::new(TYPES[0]).await).await;
    behind.publish(everything()).await;
    behind.set_aside().await;
    let good = behind.taken().await;
    let damaged = good.clone().with_header("bezoar-amqp", "no JSON");
    let batch = [damaged, good];
    let results = behind.place.transport.replay_messages(&behind.place.queue, &batch).await;
    assert!(results[0].as_ref().unwrap_err().to_string().contains("bezoar-amqp"));
    assert!(results[1].is_ok());
    assert_eq!(behind.place.dead().await, []);
}

/// The exchange also has a queue of somebody else, whose outcome says nothing about the replay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_replay_is_one_only_in_the_queue_that_the_letter_came_from() {
    for queue_type in TYPES {
        let behind = Behind::new(Place::new(queue_type).await).await;
        behind.publish(everything()).await;
        behind.set_aside().await;
        let other = Place::new(queue_type).await;
        let (queue, exchange) = (other.queue.as_str().into(), behind.exchange.as_str().into());
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let bind = behind.channel.queue_bind(queue, exchange, "new.#".into(), options, none);
        bind.await.unwrap();
        let mut taken = behind.taken().await;
        taken.ledger.replay = Some(OperationId::from_number(7));
        behind.replay(taken.clone()).await;
        for (place, expected) in [(&behind.place, taken.ledger.replay), (&other, None)] {
            let worker = place.worker().await;
            let held = one(&*worker).await;
            assert_eq!(held.message.ledger.replay, expected, "{queue_type:?}");
            settle(&*worker, held, retry(Duration::from_millis(20))).await;
            let held = one(&*worker).await;
            assert_eq!(held.message.ledger.replay, expected, "after a retry as well");
            settle(&*worker, held, Settlement::Complete).await;
        }
    }
}
