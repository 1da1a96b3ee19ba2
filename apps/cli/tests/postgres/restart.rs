//! PostgreSQL is killed under load: nothing is lost, and the gateways recover by themselves.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Method;
use test_support::postgres::Postgres;
use tokio::time::{sleep, timeout};

use crate::{
    lab::{Gateway, quoted},
    support::{PATIENCE, client::Client},
};

const MESSAGES: u64 = 600;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_killed_server_loses_nothing_and_the_gateways_recover() {
    let mut server = Postgres::start().unwrap();
    let url = quoted(&server.url());
    let (one, two) = (Gateway::start(&url).await, Gateway::start(&url).await);
    let accepted = Arc::new(AtomicU64::new(0));
    let senders = [one.client.clone(), two.client.clone()];
    let senders = senders.into_iter().enumerate().map(|(index, client)| {
        let accepted = accepted.clone();
        tokio::spawn(send_all(client, format!("k{index}"), accepted))
    });
    let senders: Vec<_> = senders.collect();
    reached(&accepted, MESSAGES / 2).await;
    server.kill().unwrap();
    for gateway in [&one, &two] {
        readiness(&gateway.client, 503).await;
    }
    server.restart().unwrap();
    for gateway in [&one, &two] {
        readiness(&gateway.client, 200).await;
    }
    for sender in senders {
        timeout(2 * PATIENCE, sender).await.expect("all are accepted in the end").unwrap();
    }
    one.client.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    let calls = [one.endpoint.calls(), two.endpoint.calls()].concat();
    let ids: BTreeSet<_> = calls.iter().map(|call| call.message.as_str()).collect();
    println!("{} messages, {} calls", ids.len(), calls.len());
    assert_eq!(ids.len() as u64, 2 * MESSAGES, "none is lost");
    let mut first = BTreeSet::new();
    let again = calls.iter().filter(|call| !first.insert(&call.message));
    assert_eq!(again.filter(|call| !call.redelivered).count(), 0, "a second call says so");
}

/// Sends one after the other, each until it is accepted.
async fn send_all(client: Client, prefix: String, accepted: Arc<AtomicU64>) {
    for number in 0..MESSAGES {
        let id = format!("{prefix}-{number}");
        let headers = [("bezoar-id", id.as_str())];
        loop {
            let path = "/v1/queues/lab/messages";
            let body = Bytes::from_static(b"{}");
            let reply = client.try_call(Method::POST, path, &headers, body).await;
            if reply.is_some_and(|reply| reply.status == 202) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        accepted.fetch_add(1, Ordering::Relaxed);
    }
}

async fn reached(accepted: &AtomicU64, count: u64) {
    let looking = async {
        while accepted.load(Ordering::Relaxed) < count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("messages are accepted");
}

async fn readiness(client: &Client, status: u16) {
    let looking = async {
        while client.get("/readyz").await.status != status {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("/readyz answers {status}"));
}
