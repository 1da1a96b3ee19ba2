//! An audit log whose end was cut contradicts what the gateway noted outside of its store.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::path::Path;

use bezoar_gateway::{Gateway, telemetry::Metrics};
use serde_json::Value;
use support::{Lab, PATIENCE, route};

async fn act(lab: &Lab, times: usize) {
    for _ in 0..times {
        lab.post("/v1/routes/results/pause", &[], "").await;
    }
}

/// The log once its end is noted.
async fn noted(lab: &Lab) -> Value {
    let looking = async {
        loop {
            let (_, audit) = lab.get("/v1/audit").await;
            if audit["noted"] == audit["head"] {
                return audit;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("the head is noted")
}

/// Removes the last entry, and sets the head back to the one before it, as somebody with access to the file can.
fn cut(store: &Path) {
    let database = rusqlite::Connection::open(store).unwrap();
    let last = "SELECT max(number) FROM bezoar_audit";
    database.execute(&format!("DELETE FROM bezoar_audit WHERE number = ({last})"), []).unwrap();
    let (count, hash): (i64, [u8; 32]) = database
        .query_row(
            "SELECT number, hash FROM bezoar_audit ORDER BY number DESC LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let head = [&count.to_be_bytes()[..], &hash].concat();
    database.execute("UPDATE bezoar_meta SET value = ?1 WHERE name = 'audit'", [head]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_cut_with_its_head_is_noticed_after_a_restart() {
    let text = route(9, "");
    let lab = Lab::start(&text).await;
    act(&lab, 3).await;
    let before = noted(&lab).await;
    assert_eq!(before["noted"]["count"], 3);
    let config = lab.config(&text);
    let Lab { gateway, folder, token } = lab;
    gateway.stop().await;
    cut(&folder.path().join("bezoar.db"));
    let gateway = Gateway::start(config, Metrics::local()).await.unwrap();
    let lab = Lab { gateway, folder, token };
    let (_, after) = lab.get("/v1/audit").await;
    assert_eq!((&after["head"]["count"], &after["noted"]), (&2.into(), &before["noted"]));
    // Another entry in its place does not hide it: what was noted stays as evidence.
    act(&lab, 2).await;
    let (_, after) = lab.get("/v1/audit").await;
    assert_eq!((&after["head"]["count"], &after["noted"]), (&4.into(), &before["noted"]));
    assert_ne!(after["items"][1]["hash"], before["noted"]["hash"]);
    lab.gateway.stop().await;
}
