//! What a route needs of a broker is removed under load, and restored.

use std::{env, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper_util::{client::legacy::Client as Http, rt::TokioExecutor};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions, QueueDeleteOptions,
    },
};
use tokio::time::sleep;

use crate::support::{Endpoint, Lab};

const MESSAGES: usize = 300;

/// A private virtual host, because all queues of a virtual host share the delay queues.
struct Vhost {
    name: String,
    _connection: Connection,
    channel: Channel,
}

impl Vhost {
    async fn new() -> Self {
        let name = format!("broken-{:08x}", rand::random::<u32>());
        manage(&format!("vhosts/{name}"), "{}").await;
        permit(&name, ".*").await;
        let connection = Connection::connect(&url(&name), ConnectionProperties::default()).await;
        let connection = connection.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { name, _connection: connection, channel }
    }

    fn config(&self, port: u16) -> String {
        let management = env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap();
        format!(
            r#"
            [transports.hospital]
            url = "{}"
            management_url = "{management}"
            [[route]]
            name = "results"
            from = "hospital/results"
            to = "http://127.0.0.1:{port}/"
            breaker = {{ failures = 1000 }}
            "#,
            url(&self.name)
        )
    }

    /// The broker caches permissions per channel: a revoked one takes effect on new channels.
    async fn remember_permission(&self) {
        let (exchange, key) = ("".into(), "nowhere".into());
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let sent = self.channel.basic_publish(exchange, key, options, b"{}", properties).await;
        sent.unwrap().await.unwrap();
    }

    async fn publish(&self, count: usize) {
        for number in 0..count {
            let properties =
                BasicProperties::default().with_message_id(format!("m-{number}").into());
            let options = BasicPublishOptions { mandatory: true, ..Default::default() };
            let (exchange, key) = ("".into(), "results".into());
            let sent = self.channel.basic_publish(exchange, key, options, b"{}", properties).await;
            sent.unwrap().await.unwrap();
        }
    }

    async fn delete_delays(&self) {
        for level in 0..7 {
            let exchange = format!("bezoar.delay.{level}");
            let options = ExchangeDeleteOptions::default();
            self.channel.exchange_delete(exchange.as_str().into(), options).await.unwrap();
        }
        // The first delay queues of a delay of a second. They are empty, or messages would be lost.
        for digit in 1..8 {
            let queue = format!("bezoar.delay.1.{digit}");
            let options = QueueDeleteOptions::default();
            self.channel.queue_delete(queue.as_str().into(), options).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_virtual_host_that_is_created_again_is_provisioned_again() {
    let (vhost, endpoint) = (Vhost::new().await, Endpoint::start().await);
    let lab = Lab::start(&vhost.config(endpoint.port)).await;
    lab.until("hospital/results", |row| row["ready"].is_number()).await;
    vhost.publish(1).await;
    endpoint.requests(1).await;
    send(Method::DELETE, &format!("vhosts/{}", vhost.name), "").await;
    lab.until("hospital/results", |row| row["route"]["problem"].is_string()).await;
    manage(&format!("vhosts/{}", vhost.name), "{}").await;
    permit(&vhost.name, ".*").await;
    // The pauses between attempts have grown meanwhile.
    let recovered = async {
        while !lab.until("hospital/results", |_| true).await["route"]["problem"].is_null() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), recovered).await.expect("it recovers");
    let connection = Connection::connect(&url(&vhost.name), ConnectionProperties::default()).await;
    let connection = connection.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    channel.basic_publish("".into(), "results".into(), options, b"{}", properties).await.unwrap();
    endpoint.requests(2).await;
    lab.gateway.stop().await;
}

fn url(vhost: &str) -> String {
    format!("{}/{vhost}", env::var("BEZOAR_TEST_AMQP").unwrap().rsplit_once('/').unwrap().0)
}

/// Sets what the gateway's user may write to.
async fn permit(vhost: &str, write: &str) {
    let body = format!(r#"{{"configure": ".*", "write": "{write}", "read": ".*"}}"#);
    manage(&format!("permissions/{vhost}/guest"), &body).await;
}

async fn manage(path: &str, body: &str) {
    send(Method::PUT, path, body).await;
}

async fn send(method: Method, path: &str, body: &str) {
    let base = env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap();
    let (scheme, rest) = base.split_once("://").unwrap();
    let (credentials, host) = rest.split_once('@').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(format!("{scheme}://{host}/api/{path}"))
        .header("authorization", format!("Basic {}", STANDARD.encode(credentials)))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap();
    let client = Http::builder(TokioExecutor::new()).build_http();
    let reply = client.request(request).await.unwrap();
    assert!(reply.status().is_success(), "{path}: {}", reply.status());
}

/// Each message fails once and is then delivered, whatever happens in between.
async fn check_nothing_dies(endpoint: &Endpoint, lab: &Lab) {
    let all = async {
        loop {
            let row = lab.until("hospital/results", |row| row["ready"].is_number()).await;
            if endpoint.distinct_done() == MESSAGES {
                return row;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let row = tokio::time::timeout(Duration::from_secs(60), all).await.expect("all are delivered");
    assert_eq!(row["dead"], 0, "{row}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn delay_queues_deleted_under_load_pause_the_route_and_lose_nothing() {
    delays_are_deleted_for(Duration::from_secs(6)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the full count: cargo xtask soak"]
async fn soak_delays_are_deleted_for_a_minute() {
    delays_are_deleted_for(Duration::from_secs(60)).await;
}

async fn delays_are_deleted_for(time: Duration) {
    let (vhost, endpoint) = (Vhost::new().await, Endpoint::start().await);
    endpoint.fails_first();
    let text = vhost.config(endpoint.port);
    let lab = Lab::start(&text).await;
    lab.until("hospital/results", |row| {
        row["ready"].is_number() && row["route"]["problem"].is_null()
    })
    .await;
    vhost.delete_delays().await;
    vhost.publish(MESSAGES).await;
    let row = lab.until("hospital/results", |row| row["route"]["problem"].is_string()).await;
    assert!(
        row["route"]["problem"].as_str().unwrap().contains("provision"),
        "it says what to do: {row}"
    );
    sleep(time).await;
    let so_far = endpoint.so_far();
    assert!(so_far < MESSAGES, "no more messages are taken: {so_far}");
    bezoar_gateway::broker_topology::provision(&lab.config(&text), None).await.unwrap();
    check_nothing_dies(&endpoint, &lab).await;
    lab.until("hospital/results", |row| row["route"]["problem"].is_null()).await;
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_permission_revoked_under_load_pauses_the_route_and_loses_nothing() {
    let (vhost, endpoint) = (Vhost::new().await, Endpoint::start().await);
    endpoint.fails_first();
    let lab = Lab::start(&vhost.config(endpoint.port)).await;
    lab.until("hospital/results", |row| {
        row["ready"].is_number() && row["route"]["problem"].is_null()
    })
    .await;
    vhost.remember_permission().await;
    permit(&vhost.name, "nothing").await;
    vhost.publish(MESSAGES).await;
    let row = lab.until("hospital/results", |row| row["route"]["problem"].is_string()).await;
    assert!(row["route"]["problem"].as_str().unwrap().contains("authorized"), "it says why: {row}");
    sleep(Duration::from_secs(6)).await;
    permit(&vhost.name, ".*").await;
    check_nothing_dies(&endpoint, &lab).await;
    lab.until("hospital/results", |row| row["route"]["problem"].is_null()).await;
    lab.gateway.stop().await;
}
