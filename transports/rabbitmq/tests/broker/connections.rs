//! Connections that are lost, refused, or time out.

use std::{env, error::Error, time::Duration};

use bezoar_core::{ErrorKind, QueueAdmin, QueueName, Settlement, SubscribeOptions, Transport};
use bezoar_rabbitmq::{Options, RabbitTransport};
use test_support::tcp_proxy::TcpProxy;
use tokio::{
    io::AsyncWriteExt,
    net::TcpListener,
    time::{Instant, sleep, timeout},
};

use super::{
    support::{PATIENCE, Place, TYPES, at, broker, message, one, options, settle, url},
    vhost::Vhost,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_cut_connection_is_reopened_and_its_receipts_are_stale() {
    let proxy = TcpProxy::to(broker()).unwrap();
    let cuttable = Options { url: at(&proxy.address().to_string()).into(), ..options(TYPES[0]) };
    let place = Place::with(cuttable).await;
    let worker = place.worker().await;
    for round in 0..3 {
        let sent = Instant::now();
        while let Err(failed) = place.send(message(&format!("m-{round}"))).await {
            assert!(sent.elapsed() < PATIENCE, "still failing: {failed}");
            sleep(Duration::from_millis(50)).await;
        }
        let held = one(&*worker).await;
        proxy.cut();
        let again = one(&*worker).await;
        assert!(again.redelivered, "it was delivered before");
        let stale = worker.settle(vec![(held, Settlement::Complete)]).await.pop().unwrap();
        assert_eq!(stale.unwrap_err().kind, ErrorKind::LeaseLost);
        settle(&*worker, again, Settlement::Complete).await;
        let more = worker.receive(std::num::NonZeroU32::MIN, Duration::from_millis(300)).await;
        for copy in more.unwrap() {
            // A failed send may have arrived: only messages in flight can be duplicated.
            settle(&*worker, copy, Settlement::Complete).await;
        }
    }
}

/// The error for a URL without a broker. Checks that it comes in time and shows no secret.
async fn refusal(url: String) -> (ErrorKind, String) {
    let options = Options {
        connect_timeout: Duration::from_secs(5),
        ..Options { url: url.into(), ..options(TYPES[0]) }
    };
    let transport = RabbitTransport::open(options).unwrap();
    let (queue, started) = (QueueName::new("q").unwrap(), Instant::now());
    let refused = timeout(PATIENCE, transport.subscribe(&queue, SubscribeOptions::default())).await;
    let refused = refused.unwrap().unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let source = refused.source().unwrap().to_string();
    for secret in ["guest:", "CANARY"] {
        assert!(!source.contains(secret), "{source}");
    }
    (refused.kind, source)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_silent_server_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (kind, source) = refusal(at(&silent.local_addr().unwrap().to_string())).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(source.contains("does not answer; check host and port"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_wrong_password_is_reported() {
    let (kind, source) = refusal(url().replacen("guest:guest", "guest:CANARY", 1)).await;
    assert_eq!(kind, ErrorKind::NotAuthorized);
    assert!(source.contains("check user and password"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_wrong_vhost_is_reported() {
    let other = format!("{}/there-is-no-such-vhost", url().rsplit_once('/').unwrap().0);
    let (kind, source) = refusal(other).await;
    assert_eq!(kind, ErrorKind::NotAuthorized);
    assert!(source.contains("virtual host does not exist"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_wrong_port_is_reported() {
    let (kind, source) = refusal(at("127.0.0.1:1")).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(source.contains("127.0.0.1:1: connection refused"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_server_that_does_not_speak_amqp_is_reported() {
    let management = env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap();
    let (_, source) = refusal(at(management.rsplit_once('@').unwrap().1)).await;
    assert!(source.contains("check host and port"), "{source}");

    let talker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = talker.local_addr().unwrap().to_string();
    let talking = tokio::spawn(async move {
        let (mut peer, _) = talker.accept().await.unwrap();
        peer.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        sleep(PATIENCE).await;
    });
    let (kind, source) = refusal(at(&address)).await;
    talking.abort();
    assert_eq!(kind, ErrorKind::Unusable, "{source}");
    assert!(source.contains("does not speak AMQP"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn several_hosts_are_tried_in_turn() {
    let hosts = at(&format!("127.0.0.1:1,{},127.0.0.1:2", broker()));
    let place = Place::with(Options { url: hosts.into(), ..options(TYPES[0]) }).await;
    place.send(message("m")).await.unwrap();
    let (kind, source) = refusal(at("127.0.0.1:1,127.0.0.1:2")).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(source.contains("127.0.0.1:1:") || source.contains("127.0.0.1:2:"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn requests_never_run_out_of_channels() {
    let place = Place::new(TYPES[1]).await;
    let unknown = QueueName::new("there-is-no-such-queue").unwrap();
    // More than a connection has channel numbers; each reply closes one.
    for _ in 0..2_100 {
        let missing = place.transport.depth(&unknown).await.unwrap_err();
        assert_eq!(missing.kind, ErrorKind::QueueNotFound(unknown.clone()));
    }
    assert_eq!(place.transport.depth(&place.queue).await.unwrap().ready, Some(0));
}

/// The heartbeats of a virtual host's connections, as the broker reports them.
async fn heartbeats(vhost: &Vhost) -> Vec<u64> {
    let found = vhost.get("connections").await;
    let found = found.as_array().cloned().unwrap_or_default();
    found.iter().filter_map(|it| it["timeout"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn the_heartbeat_of_the_url_is_used() {
    let vhost = Vhost::new().await;
    let url = format!("{}?heartbeat=7", vhost.url());
    let _place = Place::with(Options { url: url.into(), ..options(TYPES[0]) }).await;
    let started = Instant::now();
    let mut seen = heartbeats(&vhost).await;
    while seen.is_empty() {
        assert!(started.elapsed() < 2 * PATIENCE, "the broker shows no connection");
        sleep(Duration::from_millis(100)).await;
        seen = heartbeats(&vhost).await;
    }
    assert!(seen.iter().all(|seconds| *seconds == 7), "{seen:?}");
}
