use bezoar_core::{MessageId, MessageType, millis};
use lapin::types::{FieldArray, FieldTable};

use super::{
    super::{read, tests::at},
    *,
};

fn queue() -> QueueName {
    QueueName::new("results").unwrap()
}

/// A message in a dead-letter queue, moved there by the broker.
fn died() -> Raw {
    let mut headers = Table::new();
    for (number, value) in typed_values::tests::every_type().into_iter().enumerate() {
        headers.insert(format!("h-{number:02}").into(), value.clone());
        headers.insert(format!("x-{number:02}").into(), value);
    }
    let entry = Table::from([
        ("exchange".into(), text("orders")),
        ("routing-keys".into(), AMQPValue::FieldArray(FieldArray::from(vec![text("new.eu")]))),
    ]);
    let death = FieldArray::from(vec![AMQPValue::FieldTable(entry.into())]);
    headers.insert("x-death".into(), AMQPValue::FieldArray(death));
    Raw {
        properties: BasicProperties::default()
            .with_content_type("text/plain".into())
            .with_content_encoding("gzip".into())
            .with_headers(FieldTable::from(headers))
            .with_delivery_mode(2)
            .with_priority(3)
            .with_correlation_id("c-7".into())
            .with_reply_to("replies".into())
            .with_expiration("60000".into())
            .with_timestamp(1_700_000_000)
            .with_user_id("lab".into())
            .with_app_id("analyser".into())
            .with_cluster_id("c".into()),
        body: b"\xffbody".to_vec().into(),
        exchange: "bezoar.dead".into(),
        routing_key: "results".into(),
        queue: queue(),
    }
}

/// Packed, edited, and unpacked.
fn travelled(raw: Raw, edit: impl FnOnce(&mut Message)) -> ReplayTarget {
    let raw = with_original_route(raw);
    let mut elsewhere = pack(&raw, read(&raw, at(0)), None, "lab");
    edit(&mut elsewhere);
    let (raw, message) = unpack(&queue(), &elsewhere).unwrap();
    replay_target(&raw, &message, "lab")
}

#[test]
fn a_foreign_message_comes_back_as_it_was() {
    let back = travelled(died(), |_| ());
    assert_eq!(back.came_by, Some(("orders".into(), "new.eu".into())));
    let mut headers = table_of(&back.properties);
    for added in ["bezoar-binding", "bezoar-id", "bezoar-time"] {
        assert!(headers.remove(added).is_some(), "{added}");
    }
    let mut sent = table_of(&died().properties);
    sent.remove("x-death");
    assert_eq!(headers, sent);
    assert_eq!(
        back.properties.with_headers(died().properties.headers().clone().unwrap()),
        died().properties
    );
}

#[test]
fn an_operator_sees_where_it_came_from() {
    let raw = with_original_route(died());
    let elsewhere = pack(&raw, read(&raw, at(0)), None, "lab");
    assert_eq!(elsewhere.headers[EXCHANGE].reveal(), "orders");
    assert_eq!(elsewhere.headers[ROUTING_KEY].reveal(), "new.eu");
}

#[test]
fn an_edit_is_kept() {
    let back = travelled(died(), |message| {
        message.headers.insert("h-05".into(), "edited".into());
        message.headers.insert("x-05".into(), "edited".into());
        message.headers.remove("h-06");
        message.headers.insert("new".into(), "added".into());
        message.body = "other".into();
    });
    let headers = table_of(&back.properties);
    assert_eq!(headers["h-05"], text("edited"));
    assert_eq!(headers["x-05"], text("edited"), "where it was");
    assert_eq!(headers["new"], text("added"));
    assert!(!headers.contains_key("h-06"));
    assert_eq!(
        headers["h-07"],
        typed_values::tests::every_type()[7],
        "the others keep their types"
    );
}

#[test]
fn an_edit_of_the_content_encoding_is_kept() {
    let encoding = |back: ReplayTarget| back.properties.content_encoding().clone();
    assert_eq!(encoding(travelled(died(), |_| ())), Some("gzip".into()));
    let removed = travelled(died(), |message| drop(message.headers.remove("content-encoding")));
    assert_eq!(encoding(removed), None);
    let changed = travelled(died(), |message| {
        message.headers.insert("content-encoding".into(), "br".into());
    });
    assert_eq!(encoding(changed), Some("br".into()));
}

#[test]
fn our_own_messages_need_no_packing_and_reserved_names_of_a_sender_are_kept() {
    let (id, kind) = (MessageId::new("m").unwrap(), MessageType::new("sample").unwrap());
    let ours = Message::new(id, kind, millis(1_700_000_000_123), "body").with_header("a", "b");
    let raw = |message: &Message| Raw {
        properties: plain(message).unwrap(),
        body: message.body.reveal().clone(),
        exchange: "".into(),
        routing_key: "q".into(),
        queue: queue(),
    };
    assert_eq!(pack(&raw(&ours), ours.clone(), None, "lab"), ours);
    let forged = ours.with_header(EXCHANGE, "elsewhere").with_header(ORIGIN, "no JSON");
    let packed = pack(&raw(&forged), forged.clone(), None, "lab");
    let (raw, again) = unpack(&queue(), &packed).unwrap();
    assert_eq!(again, forged);
    assert_eq!(replay_target(&raw, &again, "lab").came_by, None, "a header sends nothing anywhere");
    assert!(unpack(&queue(), &forged).unwrap_err().to_string().contains("bezoar-amqp"));
}
