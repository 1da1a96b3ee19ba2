//! Work is shared.

use std::collections::BTreeSet;

use test_support::postgres::Postgres;

use crate::lab::{Gateway, quoted};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn what_one_gateway_accepts_is_delivered_once_by_either() {
    let server = Postgres::start().unwrap();
    let url = quoted(&server.url());
    let (one, two) = (Gateway::start(&url).await, Gateway::start(&url).await);
    let mut sent = 0;
    // Whoever is first takes what is there, so it may take a few rounds until both have had some.
    while one.endpoint.calls().is_empty() || two.endpoint.calls().is_empty() || sent < 400 {
        assert!(sent < 20_000, "one of them does all the work");
        one.send("k", sent..sent + 200).await;
        sent += 200;
        one.client.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    }
    let calls = [one.endpoint.calls(), two.endpoint.calls()].concat();
    let ids: BTreeSet<_> = calls.iter().map(|call| &call.message).collect();
    assert_eq!((calls.len() as u64, ids.len() as u64), (sent, sent), "each once");
    assert!(calls.iter().all(|call| !call.redelivered));
}
