//! Dead letters of a broker: taken into the catalogue, and replayed to where they came from.

use lapin::{BasicProperties, types::AMQPValue};

use super::broker::*;
use crate::support::Endpoint;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_dead_letter_is_taken_in_and_replayed_to_its_exchange_and_key() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "").await;
    let exchange = client.exchange().await;
    endpoint.answers([500, 500]);
    let sent = properties().with_message_id("m-1".into()).with_correlation_id("c-1".into());
    client.publish((&exchange, "lab.blood"), "poison", sent).await;
    let letter = lab.dead_letters(&client, 1).await.remove(0);
    assert_eq!(letter["correlation_id"], "c-1");
    assert_eq!(letter["attempts"], 2);
    let (_, shown) = lab.get(&format!("/v1/dead-letters/{}", letter["id"].as_str().unwrap())).await;
    let origin = (&shown["origin"]["exchange"], &shown["origin"]["routing_key"]);
    assert_eq!(origin, (&exchange.as_str().into(), &"lab.blood".into()), "{shown}");
    assert_eq!(shown["origin"]["vhost"], "/");
    assert_eq!(client.dead().await, 0, "it is in the catalogue, and nowhere else");
    let row = lab.until(&client.name(), |row| row["dead"] == 1).await;
    assert_eq!(row["ready"], 0);
    let spy = spy(&client, &exchange).await;
    let replayed = lab.replay_all().await;
    assert_eq!((&replayed["completed"], &replayed["failed"]), (&1.into(), &0.into()));
    assert_eq!(endpoint.requests(3).await[2].1, "poison");
    let back = client.get(&spy).await.delivery;
    assert_eq!((back.exchange.as_str(), back.routing_key.as_str()), (&*exchange, "lab.blood"));
    unchanged(&back.properties);
    lab.dead_letters(&client, 0).await;
    lab.gateway.stop().await;
}

/// Another queue behind the same exchange.
async fn spy(client: &Client, exchange: &str) -> String {
    use lapin::{options::*, types::FieldTable};
    let (name, none) = (format!("{}.spy", client.queue), FieldTable::default());
    let options = QueueDeclareOptions { auto_delete: true, ..Default::default() };
    client.channel.queue_declare(name.as_str().into(), options, none.clone()).await.unwrap();
    let (queue, key) = (name.as_str().into(), "#".into());
    let options = QueueBindOptions::default();
    client.channel.queue_bind(queue, exchange.into(), key, options, none).await.unwrap();
    name
}

/// The sender's properties are unchanged.
fn unchanged(got: &BasicProperties) {
    let sent = properties();
    assert_eq!(got.content_type(), sent.content_type());
    assert_eq!(got.content_encoding(), sent.content_encoding());
    assert_eq!(got.priority(), sent.priority());
    assert_eq!(got.reply_to(), sent.reply_to());
    assert_eq!(got.timestamp(), sent.timestamp());
    assert_eq!(got.app_id(), sent.app_id());
    let headers = got.headers().as_ref().unwrap().inner();
    for (name, value) in sent.headers().as_ref().unwrap().inner() {
        assert_eq!(headers.get(name), Some(value), "{name}");
    }
    assert_eq!(headers.get("bezoar-replayed"), Some(&AMQPValue::LongLongInt(1)));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_replay_knows_which_message_failed_again() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "").await;
    endpoint.answers([500, 500, 422]);
    client.send("m-1", "poison").await;
    let first = lab.dead_letters(&client, 1).await.remove(0);
    let replayed = lab.replay_all().await;
    assert_eq!((&replayed["completed"], &replayed["failed"]), (&0.into(), &1.into()));
    let second = lab.dead_letters(&client, 1).await.remove(0);
    assert_ne!(first["id"], second["id"]);
    assert_eq!((&second["replays"], &second["error"]["code"]), (&1.into(), &"http.422".into()));
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_rejected_message_is_taken_in_with_its_reason_from_the_store() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "dead_letter = \"reject\"").await;
    endpoint.answers([422]);
    client.send("m-1", "poison").await;
    let letter = lab.dead_letters(&client, 1).await.remove(0);
    assert_eq!(letter["message_id"], "m-1");
    assert_eq!((&letter["error"]["code"], &letter["attempts"]), (&"http.422".into(), &1.into()));
    let replayed = lab.replay_all().await;
    assert_eq!(replayed["completed"], 1, "{replayed}");
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_replay_to_a_queue_of_other_consumers_completes_once_the_broker_has_it() {
    let client = Client::new().await;
    let text = format!("{}\n[[queue]]\nname = \"{}\"", transport(), client.name());
    let lab = crate::support::Lab::start(&text).await;
    bezoar_gateway::broker_topology::provision(&lab.config(&text), None).await.unwrap();
    client.send("m-1", "poison").await;
    client.get(&client.queue).await.reject(Default::default()).await.unwrap();
    lab.dead_letters(&client, 1).await;
    let replayed = lab.replay_all().await;
    assert_eq!(replayed["completed"], 1, "{replayed}");
    assert_eq!(client.get(&client.queue).await.delivery.data, b"poison");
    lab.gateway.stop().await;
}

/// A message that is dead in one queue and delivered in another, both behind the same exchange.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_copy_in_another_queue_decides_nothing_about_a_replay() {
    const COUNT: u64 = 10;
    for again in [true, false] {
        let (client, other) = (Client::new().await, Client::new().await);
        let (refusing, accepting) = (Endpoint::start().await, Endpoint::start().await);
        let route = format!(
            "\n[[route]]\nname = \"copies\"\nfrom = \"{}\"\nto = \"http://127.0.0.1:{}/\"\n\
             retry = {{ max_retries = 0 }}\nbreaker = {{ failures = 0 }}",
            other.name(),
            accepting.port
        );
        let lab = client.lab(refusing.port, &route).await;
        lab.until(&other.name(), |row| row["ready"].is_number()).await;
        let exchange = client.exchange().await;
        bind(&other, &exchange).await;
        refusing.answers((0..COUNT).map(|_| 422));
        for number in 0..COUNT {
            let sent = properties().with_message_id(format!("m-{number}").into());
            client.publish((&exchange, "lab.blood"), "poison", sent).await;
        }
        lab.dead_letters(&client, COUNT as usize).await;
        accepting.requests(COUNT as usize).await;
        let refuses = if again { &refusing } else { &accepting };
        refuses.answers((0..COUNT).map(|_| 422));
        let replayed = lab.replay_all().await;
        let expected = if again { (0, COUNT) } else { (COUNT, 0) };
        let counted = (replayed["completed"].as_u64(), replayed["failed"].as_u64());
        assert_eq!(counted, (Some(expected.0), Some(expected.1)), "{replayed}");
        let (dead, copies) = if again { (COUNT, 0) } else { (0, COUNT) };
        lab.dead_letters(&client, dead as usize).await;
        lab.dead_letters(&other, copies as usize).await;
        let replayed = |requests: Vec<(http::HeaderMap, bytes::Bytes)>| {
            requests.iter().filter(|(headers, _)| headers.contains_key("bezoar-replay")).count()
        };
        assert_eq!(replayed(refusing.requests(2 * COUNT as usize).await), COUNT as usize);
        assert_eq!(replayed(accepting.requests(2 * COUNT as usize).await), 0, "mere copies");
        lab.gateway.stop().await;
    }
}

async fn bind(client: &Client, exchange: &str) {
    use lapin::{options::QueueBindOptions, types::FieldTable};
    let (queue, key, none) = (client.queue.as_str().into(), "#".into(), FieldTable::default());
    let options = QueueBindOptions::default();
    client.channel.queue_bind(queue, exchange.into(), key, options, none).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn a_rejected_message_without_an_id_keeps_the_reason_and_the_id_that_its_endpoint_saw() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "dead_letter = \"reject\"").await;
    endpoint.answers([422, 422]);
    for _ in 0..2 {
        client.publish(("", &client.queue), "same", BasicProperties::default()).await;
    }
    let letters = lab.dead_letters(&client, 2).await;
    let mut ids: Vec<_> = letters.iter().map(|it| it["message_id"].as_str().unwrap()).collect();
    let requests = endpoint.requests(2).await;
    let mut seen: Vec<_> =
        requests.iter().map(|(headers, _)| headers["bezoar-id"].to_str().unwrap()).collect();
    ids.sort_unstable();
    seen.sort_unstable();
    assert_eq!(ids, seen);
    assert_ne!(ids[0], ids[1], "two messages, however equal");
    for letter in &letters {
        assert_eq!(letter["error"]["code"], "http.422", "{letter}");
    }
    lab.gateway.stop().await;
}
