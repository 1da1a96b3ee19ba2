//! What an operator does at one gateway reaches the others.

use std::time::{Duration, Instant};

use bytes::Bytes;
use test_support::postgres::{PgBouncer, Postgres};

use crate::lab::{Gateway, quoted};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_pause_at_one_gateway_stops_both() {
    let server = Postgres::start().unwrap();
    pause_and_resume(&quoted(&server.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts PostgreSQL and PgBouncer; `cargo xtask test` installs them"]
async fn a_pause_reaches_others_through_a_pooler_that_passes_no_notifications() {
    let server = Postgres::start().unwrap();
    let pooler = PgBouncer::start(&server).unwrap();
    pause_and_resume(&format!("{}\ntransaction_pooling = true", quoted(&pooler.url()))).await;
}

async fn pause_and_resume(store: &str) {
    let (one, two) = (Gateway::start(store).await, Gateway::start(store).await);
    let order = async |gateway: &Gateway, verb: &str| {
        let path = format!("/v1/routes/lab/{verb}");
        assert_eq!(gateway.client.post(&path, &[], Bytes::new()).await.status, 200);
        Instant::now()
    };
    let ordered = order(&one, "pause").await;
    two.until_route(|route| route["paused"] == "paused by an operator").await;
    println!("the pause took {:?}", ordered.elapsed());
    assert!(ordered.elapsed() < Duration::from_secs(2), "{:?}", ordered.elapsed());
    two.send("k", 0..10).await;
    two.client.until("lab", |row| row["ready"] == 10).await;
    assert!(one.endpoint.calls().is_empty() && two.endpoint.calls().is_empty());
    let ordered = order(&two, "resume").await;
    one.until_route(|route| route["paused"].is_null()).await;
    assert!(ordered.elapsed() < Duration::from_secs(2), "{:?}", ordered.elapsed());
    one.client.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    assert_eq!(one.endpoint.calls().len() + two.endpoint.calls().len(), 10);
}
