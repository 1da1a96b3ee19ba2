//! Connections end at arbitrary points.

use std::{env, sync::Arc, time::Duration};

use bezoar_rabbitmq::{QueueType, RabbitTransport};
use tokio::time::{Instant, sleep};

use super::{
    load::{IN_FLIGHT, Load, options},
    proxy::Proxy,
    server::Server,
};

async fn cuts(server: &Server, queue_type: QueueType) {
    let count = env::var("BEZOAR_CONNECTION_CUTS").map_or(10, |count| count.parse().unwrap());
    let seed =
        env::var("BEZOAR_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("{queue_type:?}: BEZOAR_SEED={seed}");
    let proxy = Proxy::to(server.address(), seed).await;
    let by_proxy = format!("amqp://guest:guest@{}/%2f?heartbeat=2", proxy.address);
    let direct = RabbitTransport::open(options(&server.url(), queue_type)).unwrap();
    let faulty = RabbitTransport::open(options(&by_proxy, queue_type)).unwrap();
    let load = Load::begin(direct, Arc::new(faulty.clone()), faulty).await;
    let started = Instant::now();
    while proxy.faults() < count {
        assert!(started.elapsed() < Duration::from_secs(600), "{} faults only", proxy.faults());
        sleep(Duration::from_millis(50)).await;
    }
    let faults = proxy.faults();
    proxy.heal();
    load.more(100).await;
    let verdict = load.end().await;
    println!("{faults} faults: {verdict:?}");
    verdict.assert_kept(faults * IN_FLIGHT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn connections_that_end_anywhere_lose_nothing() {
    let server = Server::start("cuts").await;
    tokio::join!(cuts(&server, QueueType::Quorum), cuts(&server, QueueType::Classic));
}
