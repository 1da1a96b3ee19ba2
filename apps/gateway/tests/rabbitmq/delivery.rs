//! From a broker's queue to an endpoint.

use std::collections::HashSet;

use http::StatusCode;

use super::broker::*;
use crate::support::Endpoint;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_message_of_another_client_is_delivered_with_its_properties() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "").await;
    let sent = properties()
        .with_message_id("m-1".into())
        .with_type("lab.result".into())
        .with_correlation_id("c-1".into());
    client.publish(("", &client.queue), "MSH|^~\\&|", sent).await;
    let (headers, body) = endpoint.requests(1).await.remove(0);
    assert_eq!(&body[..], b"MSH|^~\\&|");
    for (name, value) in [
        ("bezoar-id", "m-1"),
        ("bezoar-type", "lab.result"),
        ("bezoar-correlation-id", "c-1"),
        ("bezoar-queue", &client.name()),
        ("content-type", "application/hl7-v2"),
        ("bezoar-header-tenant", "lab 3"),
        ("bezoar-header-number", "7"),
        ("bezoar-redelivered", "false"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    let done = |row: &serde_json::Value| row["ready"] == 0;
    let row = lab.until(&client.name(), done).await;
    assert_eq!((&row["transport"], &row["dead"]), (&"rabbitmq".into(), &0.into()));
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_message_sent_to_the_gateway_is_a_plain_message_on_the_broker() {
    let client = Client::new().await;
    let text = format!("{}\n[[queue]]\nname = \"{}\"", transport(), client.name());
    let lab = crate::support::Lab::start(&text).await;
    // Nobody works on it, so nobody has made it.
    bezoar_gateway::broker_topology::provision(&lab.config(&text), None).await.unwrap();
    let path = format!("/v1/queues/{}/messages", client.segment());
    let headers = [
        ("bezoar-id", "m-1"),
        ("bezoar-type", "lab.result"),
        ("bezoar-correlation-id", "c-1"),
        ("content-type", "application/json"),
    ];
    let (status, answer) = lab.post(&path, &headers, r#"{"value": 1}"#).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    let got = client.get(&client.queue).await.delivery;
    assert_eq!(got.data, br#"{"value": 1}"#);
    let said = &got.properties;
    let texts = [said.message_id(), said.kind(), said.correlation_id(), said.content_type()];
    let texts = texts.map(|text| text.as_ref().unwrap().as_str());
    assert_eq!(texts, ["m-1", "lab.result", "c-1", "application/json"]);
    assert_eq!(*said.delivery_mode(), Some(2));
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn gateways_share_a_queue_and_each_message_is_delivered_once() {
    const MESSAGES: usize = 200;
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let one = client.lab(endpoint.port, "concurrency = 4").await;
    let other = client.lab(endpoint.port, "concurrency = 4").await;
    for number in 0..MESSAGES {
        client.send(&format!("m-{number}"), "x").await;
    }
    let got = endpoint.requests(MESSAGES).await;
    one.until(&client.name(), |row| row["ready"] == 0).await;
    let ids: HashSet<_> = got.iter().map(|(headers, _)| headers["bezoar-id"].clone()).collect();
    assert_eq!((ids.len(), endpoint.so_far()), (MESSAGES, MESSAGES));
    one.gateway.stop().await;
    other.gateway.stop().await;
}
