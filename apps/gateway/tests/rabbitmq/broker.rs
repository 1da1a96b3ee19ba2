//! The broker as another client sees it, and a gateway on a private queue.

use std::{collections::BTreeMap, env, time::Duration};

use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
    message::BasicGetMessage,
    options::*,
    types::{AMQPValue, FieldTable},
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::support::{Lab, PATIENCE};

/// Another client of the broker, and the name of a queue that nobody else uses.
pub(crate) struct Client {
    _connection: Connection,
    pub(crate) channel: Channel,
    pub(crate) queue: String,
}

impl Client {
    pub(crate) async fn new() -> Self {
        let url = env::var("BEZOAR_TEST_AMQP").unwrap();
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let queue = format!("gateway-{:08x}", rand::random::<u32>());
        Self { _connection: connection, channel, queue }
    }

    /// `hospital/QUEUE`, as the gateway calls it.
    pub(crate) fn name(&self) -> String {
        format!("hospital/{}", self.queue)
    }

    /// The same as one segment of a path.
    pub(crate) fn segment(&self) -> String {
        format!("hospital%2F{}", self.queue)
    }

    /// A broker, and a route from the queue to an endpoint, with quick retries.
    pub(crate) fn config(&self, port: u16, more: &str) -> String {
        let name = self.name();
        format!(
            r#"
            {}
            [[route]]
            name = "results"
            from = "{name}"
            to = "http://127.0.0.1:{port}/"
            retry = {{ max_retries = 1, first = "100ms", jitter = 0.0 }}
            breaker = {{ failures = 100, pause = "100ms", max_pause = "200ms" }}
            {more}
            "#,
            transport()
        )
    }

    /// A gateway with that configuration, once its queue exists.
    pub(crate) async fn lab(&self, port: u16, more: &str) -> Lab {
        let lab = Lab::start(&self.config(port, more)).await;
        lab.until(&self.name(), |row| {
            row["ready"].is_number() && row["route"]["problem"].is_null()
        })
        .await;
        lab
    }

    /// An exchange that is bound to the queue with any routing key.
    pub(crate) async fn exchange(&self) -> String {
        let name = format!("{}.exchange", self.queue);
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let (exchange, none) = (name.as_str().into(), FieldTable::default());
        self.channel
            .exchange_declare(exchange, ExchangeKind::Topic, durable, none.clone())
            .await
            .unwrap();
        let (queue, key) = (self.queue.as_str().into(), "#".into());
        let options = QueueBindOptions::default();
        self.channel.queue_bind(queue, name.as_str().into(), key, options, none).await.unwrap();
        name
    }

    /// Publishes until the broker accepts it: a queue that is being created exists before it accepts messages.
    pub(crate) async fn publish(
        &self,
        (exchange, key): (&str, &str),
        body: &str,
        properties: BasicProperties,
    ) {
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let publish = async || {
            let (to, by) = (exchange.into(), key.into());
            let properties = properties.clone();
            let sent = self.channel.basic_publish(to, by, options, body.as_bytes(), properties);
            sent.await.unwrap().await.unwrap()
        };
        let publishing = async {
            while !matches!(publish().await, Confirmation::Ack(None)) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, publishing).await.expect("it is in a queue");
    }

    /// Sends a message directly to the queue.
    pub(crate) async fn send(&self, id: &str, body: &str) {
        let properties = BasicProperties::default().with_message_id(id.into());
        self.publish(("", &self.queue), body, properties).await;
    }

    /// The next message of a queue, not acknowledged yet.
    pub(crate) async fn get(&self, queue: &str) -> BasicGetMessage {
        let getting = async {
            loop {
                let options = BasicGetOptions::default();
                if let Some(got) = self.channel.basic_get(queue.into(), options).await.unwrap() {
                    return got;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, getting).await.expect("a message comes")
    }

    /// How many messages are ready in the dead-letter queue.
    pub(crate) async fn dead(&self) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let name = format!("{}.dead", self.queue);
        let found =
            self.channel.queue_declare(name.as_str().into(), passive, FieldTable::default());
        found.await.unwrap().message_count()
    }

    pub(crate) async fn until_dead(&self, count: u32) {
        let looking = async {
            while self.dead().await != count {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, looking).await.expect("the dead-letter queue has that many messages");
    }
}

/// `[transports.hospital]`.
pub(crate) fn transport() -> String {
    let (url, management) =
        (env::var("BEZOAR_TEST_AMQP").unwrap(), env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap());
    format!("[transports.hospital]\nurl = \"{url}\"\nmanagement_url = \"{management}\"\n")
}

/// Every property that a client can set, except id, type and correlation id.
pub(crate) fn properties() -> BasicProperties {
    let headers = BTreeMap::from([
        ("tenant".into(), AMQPValue::LongString("lab 3".into())),
        ("number".into(), AMQPValue::LongInt(7)),
        ("flag".into(), AMQPValue::Boolean(true)),
    ]);
    BasicProperties::default()
        .with_content_type("application/hl7-v2".into())
        .with_content_encoding("gzip".into())
        .with_headers(FieldTable::from(headers))
        .with_delivery_mode(2)
        .with_priority(3)
        .with_reply_to("back".into())
        .with_timestamp(1_700_000_000)
        .with_app_id("hl7".into())
}

impl Lab {
    /// The dead letters of a queue, once there are `count`.
    pub(crate) async fn dead_letters(&self, client: &Client, count: usize) -> Vec<Value> {
        let path = format!("/v1/dead-letters?queue={}", client.segment());
        let looking = async {
            loop {
                let (_, listed) = self.get(&path).await;
                let found = listed["items"].as_array().cloned().unwrap_or_default();
                if found.len() == count {
                    return found;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, looking).await.expect("so many dead letters are taken in")
    }

    /// Replays everything, and waits for every outcome.
    pub(crate) async fn replay_all(&self) -> Value {
        let (_, told) =
            self.post("/v1/replays", &[], r#"{"reason": "mended", "filter": {}}"#).await;
        let path = format!("/v1/replays/{}", told["id"].as_str().unwrap());
        let looking = async {
            loop {
                let (_, now) = self.get(&path).await;
                if now["state"] == "ended" {
                    return now;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, looking).await.expect("the replay ends")
    }
}
