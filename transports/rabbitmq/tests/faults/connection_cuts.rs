//! Connections that end at arbitrary points.

use std::{env, sync::Arc, time::Duration};

use bezoar_core::Transport;
use bezoar_rabbitmq::{QueueType, RabbitTransport};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use test_support::tcp_proxy::{Direction, Fault, FaultPlan, TcpProxy};
use tokio::time::{Instant, sleep};

use super::{
    checker::Verdict,
    load::{IN_FLIGHT, Load, STANDSTILL, options},
    server::Server,
    unconfirmed_sender::UnconfirmedSender,
};

fn random_plan(random: &mut StdRng) -> FaultPlan {
    let fault = match random.random_range(0..4) {
        0 => Fault::Stall,
        1 => Fault::HalfClose,
        _ => Fault::Cut,
    };
    let direction = if random.random() { Direction::Upward } else { Direction::Downward };
    // From the middle of the handshake to long after it, uniform on a logarithmic scale.
    let after_bytes = 2_f64.powf(random.random_range(5.0..17.0)) as usize;
    FaultPlan { direction, after_bytes, fault }
}

/// Cuts connections under load. Returns the verdict, and how many connections failed.
async fn cuts(
    server: &Server,
    queue_type: QueueType,
    sender: fn(RabbitTransport) -> Arc<dyn Transport>,
    patience: Duration,
) -> (Verdict, u32) {
    let count = env::var("BEZOAR_CONNECTION_CUTS").map_or(10, |count| count.parse().unwrap());
    let seed =
        env::var("BEZOAR_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("{queue_type:?}: BEZOAR_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let plan = move || Some(random_plan(&mut random));
    let proxy = TcpProxy::with_faults(server.address(), plan).unwrap();
    let by_proxy = format!("amqp://guest:guest@{}/%2f?heartbeat=2", proxy.address());
    let direct = RabbitTransport::open(options(&server.url(), queue_type)).unwrap();
    let faulty = RabbitTransport::open(options(&by_proxy, queue_type)).unwrap();
    let load = Load::begin(direct, sender(faulty.clone()), faulty).await.patient_for(patience);
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
    (verdict, faults)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn connections_that_end_anywhere_lose_nothing() {
    let server = Server::start("cuts").await;
    let cuts = |queue_type| cuts(&server, queue_type, |it| Arc::new(it), STANDSTILL);
    let (quorum, classic) = tokio::join!(cuts(QueueType::Quorum), cuts(QueueType::Classic));
    for (verdict, faults) in [quorum, classic] {
        verdict.assert_kept(faults * IN_FLIGHT);
    }
}

/// The control: a sender that does not wait for confirms loses messages, and the checker finds them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn a_sender_that_ignores_confirms_is_caught_by_cuts() {
    let server = Server::start("unconfirmed-cuts").await;
    let sender = |transport| Arc::new(UnconfirmedSender(transport)) as Arc<dyn Transport>;
    // Whether a cut meets a message on its way is a matter of chance.
    for _ in 0..5 {
        let (verdict, _) = cuts(&server, QueueType::Quorum, sender, Duration::from_secs(15)).await;
        if !verdict.lost.is_empty() {
            return;
        }
    }
    panic!("nothing was lost");
}
