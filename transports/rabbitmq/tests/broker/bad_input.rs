//! Any message that another client sends is handled, and does not block others.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{ErrorKind, QueueAdmin, Settlement};
use bezoar_rabbitmq::{DeadLettering, QueueType};
use lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueuePurgeOptions},
    types::{AMQPValue, DecimalValue, FieldArray, FieldTable},
};
use test_support::tcp_proxy::TcpProxy;

use super::support::{
    PATIENCE, Place, TYPES, at, broker, dead_letter, foreign_channel, message, one, retry, settle,
};

async fn publish(place: &Place, properties: BasicProperties, body: &[u8]) {
    let (_connection, channel) = foreign_channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let (key, options) = (place.queue.as_str().into(), BasicPublishOptions::default());
    let confirm = channel.basic_publish("".into(), key, options, body, properties).await;
    confirm.unwrap().await.unwrap();
}

fn table(entries: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn with_headers(headers: FieldTable) -> BasicProperties {
    BasicProperties::default().with_headers(headers)
}

/// Passes a message through its whole life: retried, dead-lettered, found in the feed, completed.
async fn live(place: &Place, body: &[u8]) {
    let worker = place.worker().await;
    for after in [Duration::ZERO, Duration::from_millis(50)] {
        let held = one(&*worker).await;
        assert_eq!(held.message.body.reveal(), body);
        settle(&*worker, held, retry(after)).await;
    }
    let held = one(&*worker).await;
    settle(&*worker, held, dead_letter()).await;
    let dead = place.dead().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message.body.reveal(), body);
    assert_eq!(place.replay_all().await, 1);
    let held = one(&*worker).await;
    assert_eq!(held.message.body.reveal(), body);
    settle(&*worker, held, Settlement::Complete).await;
    worker.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn any_body_lives() {
    let large: Vec<u8> = (0..=250).cycle().take(16 * 1024 * 1024).collect();
    for body in [b"".as_slice(), b"\xff\xfe\x00\x80", &large] {
        for queue_type in TYPES {
            let place = Place::new(queue_type).await;
            publish(&place, BasicProperties::default(), body).await;
            live(&place, body).await;
        }
    }
}

fn every_type() -> Vec<(&'static str, AMQPValue)> {
    let array = vec![AMQPValue::Void, AMQPValue::Boolean(true), text("\u{0}")];
    let nested = (0..50).fold(FieldTable::default(), |inner, _| {
        table(vec![("inner", AMQPValue::FieldTable(inner))])
    });
    vec![
        ("boolean", AMQPValue::Boolean(false)),
        ("i8", AMQPValue::ShortShortInt(-1)),
        ("u8", AMQPValue::ShortShortUInt(255)),
        ("i16", AMQPValue::ShortInt(-1)),
        ("u16", AMQPValue::ShortUInt(65_535)),
        ("i32", AMQPValue::LongInt(i32::MIN)),
        ("u32", AMQPValue::LongUInt(u32::MAX)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("f32", AMQPValue::Float(1.5)),
        ("f64", AMQPValue::Double(-0.5)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 255, value: u32::MAX })),
        ("no UTF-8", AMQPValue::LongString(b"\xff\xfe".to_vec().into())),
        ("bytes", AMQPValue::ByteArray(vec![0, 255].into())),
        ("time", AMQPValue::Timestamp(u64::MAX)),
        ("void", AMQPValue::Void),
        ("array", AMQPValue::FieldArray(FieldArray::from(array))),
        ("nested", AMQPValue::FieldTable(nested)),
        ("", text("a header without a name")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn headers_of_any_type_live_and_keep_it() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        publish(&place, with_headers(table(every_type())), b"body").await;
        let worker = place.worker().await;
        let held = one(&*worker).await;
        assert_eq!(held.message.headers["u32"].reveal(), "4294967295");
        assert_eq!(held.message.headers["array"].reveal(), r#"[null,true,"\u0000"]"#);
        settle(&*worker, held, retry(Duration::ZERO)).await;
        let held = one(&*worker).await;
        assert_eq!(held.message.headers["i64"].reveal(), &i64::MIN.to_string());
        settle(&*worker, held, Settlement::Complete).await;
        worker.close().await.unwrap();
        publish(&place, with_headers(table(every_type())), b"body").await;
        live(&place, b"body").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn headers_that_fill_a_frame_live() {
    for bytes in [100_000, 120_000, 128_000, 130_900] {
        let place = Place::new(QueueType::Quorum).await;
        let headers = vec![("tenant", text("St. Mary's")), ("large", text(&"x".repeat(bytes)))];
        publish(&place, with_headers(table(headers)), b"body").await;
        let worker = place.worker().await;
        let held = one(&*worker).await;
        assert_eq!(held.message.headers["large"].len(), bytes);
        settle(&*worker, held, retry(Duration::ZERO)).await;
        let held = one(&*worker).await;
        assert_eq!(held.message.ledger.failed, 1);
        assert_eq!(held.message.headers["tenant"].reveal(), "St. Mary's");
        let kept = held.message.headers.contains_key("large");
        assert_eq!(
            kept,
            bytes < 127_000,
            "a header is left out only if there is no room for Bezoar's own"
        );
        settle(&*worker, held, retry(Duration::ZERO)).await;
        worker.close().await.unwrap();
        let worker = place.worker().await;
        settle(&*worker, one(&*worker).await, dead_letter()).await;
        assert_eq!(place.transport.depth(&place.queue).await.unwrap().dead, Some(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn equal_messages_without_an_id_get_two_ids_and_equal_ids_are_two_messages() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        for _ in 0..2 {
            publish(&place, BasicProperties::default(), b"same").await;
            publish(&place, BasicProperties::default().with_message_id("m".into()), b"").await;
        }
        let worker = place.worker().await;
        let mut ids = Vec::new();
        for _ in 0..4 {
            let held = one(&*worker).await;
            ids.push(held.message.id.to_string());
            settle(&*worker, held, retry(Duration::ZERO)).await;
        }
        assert_eq!((ids[1].as_str(), ids[3].as_str()), ("m", "m"));
        assert_ne!(ids[0], ids[2], "two messages, however equal");
        for id in ids {
            let held = one(&*worker).await;
            assert_eq!(held.message.id.as_str(), id, "it keeps its id");
            settle(&*worker, held, Settlement::Complete).await;
        }
    }
}

/// The broker keeps no id for it: each session assigns another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_letter_of_the_brokers_own_without_an_id_is_recognized_by_its_content() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let rejecting = Place {
            transport: place.transport.dead_lettering(DeadLettering::Reject),
            queue: place.queue.clone(),
        };
        for _ in 0..2 {
            publish(&place, BasicProperties::default(), b"same").await;
            let worker = rejecting.worker().await;
            settle(&*worker, one(&*worker).await, dead_letter()).await;
            worker.close().await.unwrap();
        }
        while place.transport.depth(&place.queue).await.unwrap().dead != Some(2) {
            tokio::task::yield_now().await;
        }
        let (first, again) = (place.dead().await, place.dead().await);
        assert_ne!(first[0].message.id, first[1].message.id, "two messages");
        assert_eq!(first[0].digest(), again[0].digest(), "with the same content");
    }
}

fn forgeries() -> Vec<FieldTable> {
    const NAMES: [&str; 19] = [
        "bezoar-id",
        "bezoar-time",
        "bezoar-causation-id",
        "bezoar-headers",
        "bezoar-acquired",
        "bezoar-failed",
        "bezoar-released",
        "bezoar-replayed",
        "bezoar-replay",
        "bezoar-history",
        "bezoar-exchange",
        "bezoar-routing-key",
        "bezoar-expiration",
        "bezoar-user-id",
        "bezoar-dead-id",
        "bezoar-dead-at",
        "bezoar-reason-code",
        "bezoar-reason",
        "bezoar-dropped-headers",
    ];
    let history = format!("[{}]", vec![r#"{"attempt":1}"#; 4_000].join(","));
    let values = [
        text("nonsense"),
        text(""),
        text(&"9".repeat(5_000)),
        AMQPValue::LongString(b"\xff".to_vec().into()),
        AMQPValue::LongLongInt(i64::MAX),
        AMQPValue::LongLongInt(i64::MIN),
        AMQPValue::Boolean(true),
        AMQPValue::Void,
        AMQPValue::FieldTable(FieldTable::default()),
    ];
    let of_all = |value: &AMQPValue| table(NAMES.map(|name| (name, value.clone())).to_vec());
    let huge = table(vec![("bezoar-history", text(&history))]);
    values.iter().map(of_all).chain([huge]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn forged_headers_neither_stop_a_queue_nor_lose_a_message() {
    for headers in forgeries() {
        let place = Place::new(QueueType::Quorum).await;
        publish(&place, with_headers(headers), b"forged").await;
        live(&place, b"forged").await;
    }
}

/// A message that claims many releases could otherwise crash its process forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn forged_counters_grant_no_further_start() {
    let place = Place::new(QueueType::Quorum).await;
    let forged = vec![("bezoar-released", AMQPValue::LongLongInt(i64::from(u32::MAX)))];
    publish(&place, with_headers(table(forged)), b"forged").await;
    for start in 1..=3 {
        let process = place.seen_with(super::support::options(QueueType::Quorum));
        let held = one(&*process.worker().await).await;
        assert_eq!(held.message.ledger.without_outcome(), start, "each start is counted");
        process.transport.close().await;
    }
}

/// Sends a message with a property that is not UTF-8, which lapin cannot do.
async fn publish_unreadable(place: &Place) {
    let proxy = TcpProxy::with_upload_filter(broker(), |_, bytes| {
        if let Some(at) = bytes.windows(8).position(|some| some == b"NO-UTF-8") {
            bytes[at..at + 8].fill(0xff);
        }
    });
    let url = at(&proxy.as_ref().unwrap().address().to_string());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let (key, options) = (place.queue.as_str().into(), BasicPublishOptions::default());
    let properties = BasicProperties::default().with_app_id("NO-UTF-8".into());
    channel.basic_publish("".into(), key, options, b"", properties).await.unwrap().await.unwrap();
}

/// It closes the connection of everybody once; from then on only that of its own queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_message_that_cannot_be_read_stops_no_other_queue() {
    let place = Place::new(QueueType::Quorum).await;
    let queue = bezoar_core::QueueName::new(format!("{}-healthy", place.queue)).unwrap();
    place.transport.provision(&queue).await.unwrap();
    let healthy = Place { transport: place.transport.clone(), queue };
    let (worker, fresh) = (healthy.worker().await, place.worker().await);
    publish_unreadable(&place).await;
    let poisoned = tokio::spawn(async move {
        loop {
            let _ = fresh.receive(NonZeroU32::MIN, std::time::Duration::from_millis(200)).await;
        }
    });
    let (started, mut failures) = (tokio::time::Instant::now(), Vec::new());
    for number in 0..50 {
        healthy.send(message(&number.to_string())).await.unwrap();
        loop {
            match worker.receive(NonZeroU32::MIN, PATIENCE).await {
                Ok(mut some) => {
                    let held = some.pop().expect("a message must arrive");
                    let settled = worker.settle(vec![(held, Settlement::Complete)]).await;
                    if settled[0].is_ok() {
                        break;
                    }
                }
                Err(failed) => failures.push(failed),
            }
            assert!(started.elapsed() < PATIENCE, "message {number} is not completed");
        }
    }
    assert!(failures.len() <= 2, "it was disturbed: {failures:?}");
    poisoned.abort();
}

/// A message that the client library cannot read is reported, and delays others only for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_property_that_is_no_utf_8_is_told_and_goes_when_it_is_removed() {
    let place = Place::new(QueueType::Quorum).await;
    publish_unreadable(&place).await;
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    let failed = worker.receive(NonZeroU32::MIN, PATIENCE).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Unusable);
    let told = std::error::Error::source(&failed).unwrap().to_string();
    assert!(told.contains("not UTF-8"), "{told}");
    // They are delivered again once the broker notices that lapin closed the connection.
    let both = async {
        while place.transport.depth(&place.queue).await.unwrap().ready != Some(2) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("both messages arrive");
    let (_connection, channel) = foreign_channel().await;
    channel.queue_purge(place.queue.as_str().into(), QueuePurgeOptions::default()).await.unwrap();
    place.send(message("after")).await.unwrap();
    assert_eq!(one(&*worker).await.message.id.as_str(), "after");
}
