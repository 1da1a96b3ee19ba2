//! A broker that accepts connections and says nothing delays nobody who asks for counts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use http::StatusCode;
use support::Lab;
use tokio::net::TcpListener;

const QUEUES: usize = 20;
/// Asking the queues one after another would take a minute.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_hangs_does_not_hold_up_the_overview() {
    let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = broker.local_addr().unwrap().port();
    let mut text =
        format!("[transports.hospital]\nurl = \"amqp://guest:guest@127.0.0.1:{port}/%2f\"\n");
    for number in 0..QUEUES {
        text += &format!("[[queue]]\nname = \"hospital/q{number}\"\nwatch = \"count\"\n");
    }
    let lab = Lab::start(&text).await;
    let started = Instant::now();
    for _ in 0..4 {
        let (status, queues) = lab.get("/v1/queues").await;
        assert_eq!(status, StatusCode::OK);
        let rows = queues.as_array().unwrap();
        assert_eq!(rows.iter().filter(|row| row["transport"] == "rabbitmq").count(), QUEUES);
        for row in rows.iter().filter(|row| row["transport"] == "rabbitmq") {
            for count in ["ready", "delayed", "in_flight", "dead"] {
                assert!(row[count].is_null(), "unknown is not 0: {row}");
            }
        }
        lab.plain_text("/metrics").await;
    }
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let row = lab.until("hospital/q7", |row| row["problem"].is_string()).await;
    assert!(row["counted_seconds_ago"].is_number(), "{row}");
}
