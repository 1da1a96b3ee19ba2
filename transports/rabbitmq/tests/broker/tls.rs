//! TLS connections to a broker that asks for client certificates.

use std::{error::Error, path::Path, process::Command, time::Duration};

use bezoar_core::{ErrorKind, QueueName, Settlement, SubscribeOptions, Transport, TransportError};
use bezoar_rabbitmq::{Options, Pem, RabbitTransport};
use test_support::rabbitmq::RabbitMq;
use tokio::time::Instant;

use super::{
    private_broker,
    support::{Place, message, one, settle},
};

fn openssl(folder: &Path, arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A certificate authority, certificates of it for a server and a client, and an unrelated authority.
fn make_certificates(folder: &Path) {
    std::fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name=dn\n[dn]\n").unwrap();
    let new = |name: &str, more: &[&str]| {
        let (key, pem, subject) =
            (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let mut arguments = vec!["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec"];
        arguments.extend(["-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
        arguments.extend(["-keyout", &key, "-out", &pem, "-subj", &subject]);
        arguments.extend(more);
        openssl(folder, &arguments);
    };
    let authority = ["-addext", "basicConstraints=critical,CA:TRUE"];
    new("ca", &authority);
    new("stranger", &authority);
    let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"];
    let names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    new("server", &[signed.as_slice(), &names].concat());
    new("client", &signed);
}

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
    let broker = private_broker::start_with_tls(make_certificates);
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
