//! Many connections that do nothing, drip, or never read what they asked for.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::Lab;

/// How many connections there are of each sort, and how long a good request may take beside them.
struct Crowd {
    idle: usize,
    slow: usize,
    deaf: usize,
    p99: Duration,
}

/// More than the gateway has room for. The time is that of a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_strangers_locks_nobody_out() {
    check(&Crowd { idle: 500, slow: 100, deaf: 4_200, p99: Duration::from_secs(5) }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the full count: cargo xtask soak"]
async fn soak_a_crowd_of_strangers_locks_nobody_out() {
    let p99 = Duration::from_millis(100);
    check(&Crowd { idle: 10_000, slow: 1_000, deaf: 4_200, p99 }).await;
}

async fn check(crowd: &Crowd) {
    bezoar_gateway::raise_open_file_limit();
    let lab = Lab::start();
    let mut connections = Vec::new();
    for _ in 0..crowd.deaf {
        connections
            .push(begin(&lab, &"GET /openapi.json HTTP/1.1\r\nhost: h\r\n\r\n".repeat(50)).await);
    }
    for _ in 0..crowd.idle {
        connections.push(begin(&lab, "").await);
    }
    for number in 0..crowd.slow {
        connections.push(begin(&lab, if number % 2 == 0 { HEAD } else { BODY }).await);
    }
    let mut times: Vec<_> = Vec::new();
    for _ in 0..200 {
        times.push(good_request(&lab).await);
    }
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    eprintln!("median {:?}, p99 {p99:?}", times[times.len() / 2]);
    assert!(p99 < crowd.p99, "{p99:?}");
    lab.assert_memory("a crowd");
    drop(connections);
}

/// The beginning of a head, and a head with the beginning of a body.
const HEAD: &str = "POST /v1/queues/default/messages HTTP/1.1\r\nx: ";
const BODY: &str = "POST /v1/queues/default/messages HTTP/1.1\r\nhost: h\r\n\
    authorization: Bearer the-token-of-an-operator\r\ncontent-length: 1000000\r\n\r\nx";

async fn begin(lab: &Lab, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(lab.program.address).await.unwrap();
    let _ = stream.write_all(text.as_bytes()).await; // it may have been closed already
    stream
}

/// A message and a look at the health, each on a new connection.
async fn good_request(lab: &Lab) -> Duration {
    let (client, body) = (lab.client("operator"), Bytes::from_static(b"hello"));
    let started = Instant::now();
    let reply = client.post("/v1/queues/default/messages", &[], body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    let took = started.elapsed();
    assert_eq!(lab.client("nobody").get("/healthz").await.status, StatusCode::OK);
    took
}
