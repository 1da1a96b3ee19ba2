//! TLS connections to a broker that asks for client certificates.

use std::{error::Error, time::Duration};

use bezoar_core::{ErrorKind, QueueName, Settlement, SubscribeOptions, Transport, TransportError};
use bezoar_rabbitmq::{Options, Pem, RabbitTransport};
use test_support::{certificates, rabbitmq::RabbitMq};
use tokio::time::Instant;

use super::{
    private_broker,
    support::{Place, message, one, settle},
};

fn options(broker: &RabbitMq) -> Options {
    Options {
        tls_ca: Some(Pem::File(broker.file("ca.pem"))),
        tls_certificate: Some(Pem::File(broker.file("client.pem"))),
        tls_key: Some(Pem::Text(
            std::fs::read_to_string(broker.file("client.key")).unwrap().into(),
        )),
        connect_timeout: Duration::from_secs(5),
        ..Options::from_url(&broker.tls_url()).unwrap()
    }
}

async fn refusal(options: Options) -> (TransportError, String) {
    let transport = RabbitTransport::open(options).unwrap();
    let (queue, started) = (QueueName::new("q").unwrap(), Instant::now());
    let refused = transport.subscribe(&queue, SubscribeOptions::default()).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    let source = refused.source().unwrap().to_string();
    assert!(!source.contains("guest:guest") && !source.contains("BEGIN"), "{source}");
    (refused, source)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ and openssl installed; `cargo xtask test` installs them"]
async fn the_right_certificates_are_accepted_and_wrong_ones_are_refused_with_a_reason() {
    let broker = private_broker::start_with_tls(|folder| certificates::create(folder).unwrap());
    let place = Place::with(options(&broker)).await;
    place.send(message("m")).await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    settle(&*worker, held, Settlement::Complete).await;

    let stranger = Some(Pem::File(broker.file("stranger.pem")));
    let (refused, source) = refusal(Options { tls_ca: stranger, ..options(&broker) }).await;
    assert_eq!(refused.kind, ErrorKind::Unusable, "{source}");
    assert!(source.contains("check tls_ca"), "{source}");

    let nobody = Options { tls_certificate: None, tls_key: None, ..options(&broker) };
    let (_, source) = refusal(nobody).await;
    assert!(source.contains("tls_certificate"), "{source}");

    let plain = broker.tls_url().replacen("amqps", "amqp", 1);
    let (_, source) = refusal(Options {
        connect_timeout: Duration::from_secs(5),
        ..Options::from_url(&plain).unwrap()
    })
    .await;
    assert!(source.contains("amqps"), "{source}");

    let wrong_port = broker.url().replacen("amqp", "amqps", 1).into();
    let (refused, source) = refusal(Options { url: wrong_port, ..options(&broker) }).await;
    assert_eq!(refused.kind, ErrorKind::Unusable, "{source}");
    assert!(source.contains("the port expects TLS"), "{source}");
}
