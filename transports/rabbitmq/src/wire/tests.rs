use std::time::Duration;

use bezoar_core::{
    DETAIL_LIMIT_BYTES, Detail, FailedTry, Failure, FailureKind, HISTORY_LIMIT, MessageId,
    catalogue::OperationId, millis,
};
use lapin::types::{AMQPValue, FieldArray, FieldTable};

use super::{
    header_names::{EXCHANGE, EXPIRATION, ROUTING_KEY, USER_ID},
    header_table::{Table, string, table_of, text},
    message::UNTYPED,
    *,
};

fn raw(properties: BasicProperties) -> Raw {
    Raw {
        properties,
        body: Bytes::from_static(b"\xffbody"),
        exchange: "orders".into(),
        routing_key: "new.eu".into(),
        queue: queue("q"),
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// Arrived at this time; the random number differs too.
pub(super) fn at(millisecond: u32) -> Substitutes {
    Substitutes { time: millis(millisecond.into()), random: millisecond.into() }
}

fn table<const N: usize>(entries: [(&str, AMQPValue); N]) -> FieldTable {
    let entries = entries.map(|(name, value)| (ShortString::from(name), value));
    FieldTable::from(Table::from(entries))
}

/// What pika sends that uses everything.
fn foreign() -> Raw {
    raw(BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("gzip".into())
        .with_headers(table([
            ("tenant", text("St. Mary's")),
            ("priority", AMQPValue::LongInt(-7)),
            ("x-own", AMQPValue::Boolean(true)),
            ("CC", AMQPValue::FieldArray(FieldArray::from(vec![text("elsewhere")]))),
            ("x-death", AMQPValue::FieldArray(FieldArray::default())),
        ]))
        .with_delivery_mode(1)
        .with_priority(3)
        .with_reply_to("replies".into())
        .with_expiration("60000".into())
        .with_timestamp(1_700_000_000)
        .with_user_id("guest".into())
        .with_app_id("lab".into()))
}

#[test]
fn a_foreign_message_goes_on_without_losing_a_property() {
    let message = read(&foreign(), at(0));
    let onward = raw(republished(&foreign(), &message));
    let (before, after) = (foreign().properties, onward.properties.clone());
    assert_eq!(after.content_encoding(), before.content_encoding());
    assert_eq!(after.reply_to(), before.reply_to());
    assert_eq!(after.app_id(), before.app_id());
    assert_eq!(after.priority(), before.priority());
    assert_eq!(after.timestamp(), before.timestamp());
    assert_eq!(after.delivery_mode(), &Some(PERSISTENT), "always persistent");
    let headers = table_of(&after);
    assert_eq!(headers["priority"], AMQPValue::LongInt(-7), "a header keeps its type");
    assert_eq!(headers["x-own"], AMQPValue::Boolean(true));
    assert_eq!(string(&headers, EXPIRATION).as_deref(), Some("60000"));
    assert_eq!(string(&headers, USER_ID).as_deref(), Some("guest"));
    assert_eq!(string(&headers, EXCHANGE).as_deref(), Some("orders"));
    assert_eq!(string(&headers, ROUTING_KEY).as_deref(), Some("new.eu"));
    assert!(
        after.expiration().is_none() && after.user_id().is_none(),
        "the broker would act on these"
    );
    assert!(!headers.contains_key("x-death") && !headers.contains_key("CC"), "and on these");
    assert_eq!(read(&onward, at(9)), message, "and it is read as the same message");
    assert_eq!(requeued(&onward, &message).expiration(), before.expiration());
}

#[test]
fn the_content_encoding_is_a_property_on_the_wire_and_a_header_of_the_message() {
    let read_back =
        |message: &bezoar_core::Message| read(&raw(write(message, None).unwrap()), at(0));
    let compressed = read(&foreign(), at(0));
    assert_eq!(compressed.headers["content-encoding"].reveal(), "gzip");
    let sent = write(&compressed, None).unwrap();
    assert_eq!(sent.content_encoding().as_ref().map(ShortString::as_str), Some("gzip"));
    assert!(!table_of(&sent).contains_key("content-encoding"), "once");
    assert_eq!(read_back(&compressed).headers, compressed.headers);
    let plain = read(&raw(BasicProperties::default()), at(0));
    for (name, value) in
        [("Content-Encoding", "br".to_owned()), ("content-encoding", "x".repeat(300))]
    {
        let message = plain.clone().with_header(name, value);
        assert_eq!(read_back(&message).headers, message.headers, "{name}");
    }
    assert!(write(&plain, None).unwrap().content_encoding().is_none());
}

#[test]
fn a_missing_id_is_assigned_and_stays() {
    let (first, again) = (read(&foreign(), at(0)), read(&foreign(), at(5)));
    assert_ne!(first.id, again.id, "two equal messages are two messages");
    assert_eq!(first.id.content_part(), again.id.content_part());
    assert!(first.id.content_part().is_some());
    assert_eq!(first.message_type.as_str(), UNTYPED);
    let onward = raw(republished(&foreign(), &first));
    assert_eq!(read(&onward, at(5)).id, first.id);
    assert!(onward.properties.message_id().is_none(), "no property is made up");
}

/// A message that was sent as `properties`, and delivered.
fn delivered(properties: BasicProperties, body: &[u8]) -> Raw {
    let (exchange, key) = ("".into(), "q".into());
    let mut delivery = lapin::message::Delivery::mock(1, exchange, key, false, body.into());
    delivery.properties = properties;
    Raw::delivered(delivery, queue("q"))
}

#[test]
fn headers_of_ours_count_only_on_the_message_that_they_were_written_for() {
    let failure = Failure::transient("boom");
    let mut message = read(&foreign(), at(0));
    message.ledger.fail(vec![FailedTry::new(millis(0), Duration::ZERO, &failure)]);
    let sent = republished(&foreign(), &message);
    assert_eq!(read(&delivered(sent.clone(), b"\xffbody"), at(9)), message);
    let another_id = sent.clone().with_message_id("other".into());
    let mut unbound = table_of(&sent);
    unbound.remove("bezoar-binding");
    let unbound = sent.clone().with_headers(unbound.into());
    for (properties, body) in
        [(sent, b"other".as_slice()), (another_id, b"\xffbody"), (unbound, b"\xffbody")]
    {
        let other = delivered(properties, body);
        let headers = table_of(&other.properties);
        let names = headers.keys().map(ShortString::as_str);
        let ours: Vec<_> = names.filter(|name| name.starts_with("bezoar-")).collect();
        assert_eq!(ours, ["bezoar-headers", "bezoar-time"], "what any sender may set is kept");
        let read = read(&other, at(9));
        assert_ne!(read.id, message.id);
        assert_eq!(
            (read.ledger, read.headers),
            (bezoar_core::Ledger::default(), message.headers.clone())
        );
    }
}

#[test]
fn a_copy_in_another_queue_is_not_part_of_a_replay() {
    let mut message = read(&foreign(), at(0));
    message.ledger.replay = Some(OperationId::from_number(7));
    let sent = republished(&foreign(), &message);
    let in_queue = |name| {
        let raw = Raw { queue: queue(name), ..delivered(sent.clone(), b"\xffbody") };
        read(&raw, at(0)).ledger.replay
    };
    assert_eq!(in_queue("q"), message.ledger.replay);
    assert_eq!(in_queue("other"), None);
}

#[test]
fn a_ledger_that_is_sent_is_bound() {
    let mut message = read(&foreign(), at(0));
    message.ledger.acquire();
    let sent = delivered(write(&message, None).unwrap(), b"\xffbody");
    assert_eq!(read(&sent, at(0)).ledger, message.ledger);
}

#[test]
fn headers_never_outgrow_a_frame() {
    let mut message = read(&foreign(), at(0));
    message.headers.insert("large".into(), "x".repeat(60_000).into());
    message.id = MessageId::new("m").unwrap();
    let failure = Failure::with_detail(
        FailureKind::Transient,
        Detail::truncated("\0".repeat(DETAIL_LIMIT_BYTES)),
    );
    for _ in 0..HISTORY_LIMIT {
        message.ledger.fail(vec![FailedTry::new(millis(0), Duration::ZERO, &failure)]);
    }
    let properties = write(&message, None).unwrap();
    assert!(header_size::of_table(&table_of(&properties)) <= header_size::LIMIT_BYTES);
    let read = read(&raw(properties), at(0));
    assert_eq!(read.ledger.failed, HISTORY_LIMIT as u32, "every failure is counted");
    assert_eq!(read.ledger.last(), message.ledger.last(), "the last is remembered");
}

#[test]
fn many_small_headers_are_refused_before_they_burst_a_frame() {
    let mut message = read(&raw(BasicProperties::default()), at(0));
    message.headers = (0..15_000).map(|number| (number.to_string(), "".into())).collect();
    assert!(write(&message, None).unwrap_err().to_string().contains("frame"));
}

#[test]
fn the_broker_says_why_it_set_a_message_aside() {
    let entry = table([("reason", text("expired")), ("time", AMQPValue::Timestamp(1_700_000_000))]);
    let death = FieldArray::from(vec![AMQPValue::FieldTable(entry)]);
    let died =
        raw(BasicProperties::default()
            .with_headers(table([("x-death", AMQPValue::FieldArray(death))])));
    let (reason, at) = broker_reason(&died, millis(0));
    assert_eq!((reason.code().as_str(), at.as_second()), ("expired", 1_700_000_000));
    assert_eq!(broker_reason(&raw(BasicProperties::default()), millis(7)).1, millis(7));
}
