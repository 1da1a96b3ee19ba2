//! The broker is killed and started again.

use std::{sync::Arc, time::Duration};

use bezoar_rabbitmq::{QueueType, RabbitTransport};

use super::{
    load::{IN_FLIGHT, Load, options},
    server::Server,
    unconfirmed_sender::UnconfirmedSender,
};

fn open(server: &Server, queue_type: QueueType) -> RabbitTransport {
    RabbitTransport::open(options(&server.url(), queue_type)).unwrap()
}

async fn load(server: &Server, queue_type: QueueType) -> Load {
    let transport = open(server, queue_type);
    Load::begin(transport.clone(), Arc::new(transport.clone()), transport).await
}

async fn kill_broker(kills: u32) {
    let mut server = Server::start("kills").await;
    let quorum = load(&server, QueueType::Quorum).await;
    let classic = load(&server, QueueType::Classic).await;
    for _ in 0..kills {
        tokio::join!(quorum.more(200), classic.more(200));
        server.kill();
        server.restart();
    }
    tokio::join!(quorum.more(200), classic.more(200));
    let (quorum, classic) = tokio::join!(quorum.end(), classic.end());
    println!("quorum: {quorum:?}\nclassic: {classic:?}");
    quorum.assert_kept(kills * IN_FLIGHT);
    classic.assert_kept(kills * IN_FLIGHT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn a_broker_that_is_killed_loses_nothing() {
    kill_broker(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
async fn soak_a_broker_that_is_killed_loses_nothing() {
    kill_broker(20).await;
}

/// The control: a sender that does not wait for confirms loses messages, and the checker finds them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn a_sender_that_ignores_confirms_is_caught() {
    let mut server = Server::start("unconfirmed").await;
    let transport = open(&server, QueueType::Quorum);
    let sender = Arc::new(UnconfirmedSender(transport.clone()));
    let load =
        Load::begin(transport.clone(), sender, transport).await.patient_for(Duration::from_secs(5));
    load.more(100).await;
    server.kill();
    server.restart();
    load.more(100).await;
    let verdict = load.end().await;
    assert!(!verdict.lost.is_empty(), "{verdict:?}");
}
