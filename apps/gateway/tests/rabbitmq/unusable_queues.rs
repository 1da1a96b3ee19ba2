//! Brokers that are down, and queues that are missing or wrong.

use http::StatusCode;
use lapin::{options::QueueDeleteOptions, types::FieldTable};

use super::broker::*;
use crate::support::{Endpoint, Lab, route};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_down_stops_nothing_else() {
    let endpoint = Endpoint::start().await;
    let text = format!(
        "[transports.hospital]\nurl = \"amqp://127.0.0.1:1\"\n{}\n[[route]]\nname = \"blood\"\n\
         from = \"hospital/blood\"\nto = \"http://127.0.0.1:{}/\"",
        route(endpoint.port, ""),
        endpoint.port
    );
    let lab = Lab::start(&text).await;
    lab.send("lab", &[], "hello").await;
    endpoint.requests(1).await;
    let row = lab.until("hospital/blood", |row| row["route"]["problem"].is_string()).await;
    assert!(row["ready"].is_null(), "not known is not 0: {row}");
    assert!(row["problem"].as_str().unwrap().contains("unavailable"), "{row}");
    let (status, told) = lab.post("/v1/queues/hospital%2Fblood/messages", &[], "hello").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(told["type"], "urn:bezoar:problem:broker-unavailable", "{told}");
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn nothing_is_consumed_before_it_could_be_dead_lettered() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let text = client.config(endpoint.port, "").replacen(
        "management_url",
        "provision = false\nmanagement_url",
        1,
    );
    let lab = Lab::start(&text).await;
    let row = lab.until(&client.name(), |row| row["route"]["problem"].is_string()).await;
    assert!(row["route"]["problem"].as_str().unwrap().contains("provision"), "{row}");
    let only = bezoar::QueueName::new(client.name()).unwrap();
    bezoar_gateway::broker_topology::provision(&lab.config(&text), Some(&only)).await.unwrap();
    client.send("m-1", "hello").await;
    endpoint.requests(1).await;
    lab.until(&client.name(), |row| row["route"]["problem"].is_null()).await;
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_queue_deleted_under_its_route_is_reported_and_consumed_again() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "").await;
    client.send("m-1", "before").await;
    endpoint.requests(1).await;
    let queue = client.queue.as_str().into();
    client.channel.queue_delete(queue, QueueDeleteOptions::default()).await.unwrap();
    let row = lab.until(&client.name(), |row| row["route"]["problem"].is_string()).await;
    assert!(row["route"]["problem"].as_str().unwrap().contains("no queue"), "{row}");
    let text = client.config(endpoint.port, "");
    bezoar_gateway::broker_topology::provision(&lab.config(&text), None).await.unwrap();
    client.send("m-2", "after").await;
    assert_eq!(endpoint.requests(2).await[1].1, "after");
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn an_existing_queue_with_other_arguments_is_used_as_it_is() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let durable = lapin::options::QueueDeclareOptions { durable: true, ..Default::default() };
    let queue = client.queue.as_str().into();
    client.channel.queue_declare(queue, durable, FieldTable::default()).await.unwrap();
    let text = client.config(endpoint.port, "");
    let lab = Lab::start(&text).await;
    client.send("m-1", "hello").await;
    assert_eq!(endpoint.requests(1).await[0].1, "hello");
    let checked = bezoar_gateway::broker_topology::check(&lab.config(&text)).await.unwrap();
    let [broker, queue] = &checked[..] else { panic!("a broker and a queue: {checked:?}") };
    assert_eq!(broker.subject.to_string(), "transport hospital");
    assert_eq!(queue.subject.to_string(), format!("queue {}", client.name()));
    let findings = queue.outcome.as_ref().unwrap();
    assert!(findings.iter().all(|it| it.severity == bezoar::Severity::Note), "{findings:#?}");
    lab.gateway.stop().await;
}
