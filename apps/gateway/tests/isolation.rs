//! An endpoint that hangs is its own route's trouble and nobody else's.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{env, time::Duration};

use axum::{Router, extract::State, routing::post};
use http::StatusCode;
use support::{Lab, PATIENCE};
use tokio::{
    net::TcpListener,
    sync::watch,
    time::{Instant, timeout},
};

/// How many messages the healthy route has to deliver.
const MESSAGES: usize = 2_000;
/// How much slower the healthy route may be: far above what is measured, because a test shares its machine.
const BOUND: f64 = 1.5;
/// How many rounds are taken beyond those asked for, if times differ.
const MORE_ROUNDS: usize = 8;
/// How many messages a route delivers at a time.
const CONCURRENCY: usize = 16;

/// What the neighbour's endpoint does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Neighbour {
    Idle,
    Hangs,
}

/// Rounds with either neighbour take turns. Whatever else the machine does only adds to a time, so the best of
/// each are compared, and more rounds are taken while they differ by too much.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_does_not_slow_another_route() {
    let rounds = env::var("BEZOAR_ISOLATION_ROUNDS").map_or(2, |text| text.parse().unwrap());
    let (mut idle, mut hanging) = (Vec::new(), Vec::new());
    for round in 1..=rounds + MORE_ROUNDS {
        // Now one first, now the other, so that coming second is nobody's advantage.
        let mut order = [Neighbour::Idle, Neighbour::Hangs];
        order.rotate_left(round % 2);
        for neighbour in order {
            let took = deliver_beside(neighbour).await;
            if neighbour == Neighbour::Idle { &mut idle } else { &mut hanging }.push(took);
        }
        if round >= rounds && ratio(best(&idle), best(&hanging)) < BOUND {
            break;
        }
    }
    let by_median = ratio(median(&mut idle), median(&mut hanging));
    let by_best = ratio(best(&idle), best(&hanging));
    println!("beside an idle route {idle:?}");
    println!("beside a hanging one {hanging:?}: best {by_best:.3}, median {by_median:.3}");
    assert!(by_best < BOUND, "{by_best:.3}");
}

/// How long a route takes for all its messages.
async fn deliver_beside(neighbour: Neighbour) -> Duration {
    let (healthy, other) =
        (Endpoint::start(Neighbour::Idle).await, Endpoint::start(neighbour).await);
    let routes = route("lab", healthy.port) + &route("ward", other.port);
    let lab = Lab::start(&format!("[server]\ndrain = \"0s\"\n{routes}")).await;
    assert_eq!(lab.post("/v1/routes/lab/pause", &[], "").await.0, StatusCode::OK);
    send(&lab, "lab", MESSAGES).await;
    if neighbour == Neighbour::Hangs {
        send(&lab, "ward", 10 * CONCURRENCY).await;
        other.called(CONCURRENCY).await;
    }
    let started = Instant::now();
    assert_eq!(lab.post("/v1/routes/lab/resume", &[], "").await.0, StatusCode::OK);
    // The neighbour's timeout is longer than our patience: who waited for it even once would be late.
    healthy.called(MESSAGES).await;
    let took = started.elapsed();
    if neighbour == Neighbour::Hangs {
        let row = lab.until("ward", |row| row["in_flight"] == CONCURRENCY).await;
        assert_eq!(row["route"]["breaker"], "closed", "it hung all the time: {row}");
    }
    lab.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    lab.gateway.stop().await;
    took
}

async fn send(lab: &Lab, queue: &str, count: usize) {
    let lines = "{\"body\":\"Hb 14.1\"}\n".repeat(count);
    let ndjson = [("content-type", "application/x-ndjson")];
    let (_, answer) = lab.post(&format!("/v1/queues/{queue}/batches"), &ndjson, &lines).await;
    assert_eq!(answer["accepted"], count, "{answer}");
}

fn best(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap()
}

fn ratio(of: Duration, to: Duration) -> f64 {
    to.as_secs_f64() / of.as_secs_f64()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn route(name: &str, port: u16) -> String {
    format!(
        "[[route]]\nname = \"{name}\"\nfrom = \"{name}\"\nto = \"http://127.0.0.1:{port}/\"\n\
         concurrency = {CONCURRENCY}\n"
    )
}

/// Counts its calls, and keeps nothing.
#[derive(Debug, Clone)]
struct Endpoint {
    port: u16,
    calls: watch::Sender<usize>,
    neighbour: Neighbour,
}

impl Endpoint {
    async fn start(neighbour: Neighbour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let endpoint = Self { port, calls: watch::Sender::default(), neighbour };
        let router = Router::new().route("/", post(take)).with_state(endpoint.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        endpoint
    }

    async fn called(&self, times: usize) {
        let mut calls = self.calls.subscribe();
        let enough = calls.wait_for(|count| *count >= times);
        timeout(PATIENCE, enough).await.expect("the endpoint is called").unwrap();
    }
}

async fn take(State(endpoint): State<Endpoint>) {
    endpoint.calls.send_modify(|count| *count += 1);
    if endpoint.neighbour == Neighbour::Hangs {
        std::future::pending().await
    }
}
