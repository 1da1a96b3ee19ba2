//! `/readyz` is about messages being accepted: a store that can only be read is not ready.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use http::StatusCode;
use rusqlite::Connection;
use support::{Lab, PATIENCE};
use tokio::time::{sleep, timeout};

/// Waits until `/readyz` answers with this status; asks no more than others would.
async fn until_ready_is(lab: &Lab, expected: StatusCode) {
    let asking = async {
        while lab.get("/readyz").await.0 != expected {
            sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, asking).await.expect("it finds out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_cannot_write_is_not_ready() {
    let lab = Lab::start("").await;
    assert_eq!(lab.get("/readyz").await.0, StatusCode::OK);
    let other = Connection::open(lab.folder.path().join("bezoar.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (status, _) = lab.post("/v1/queues/default/messages", &[], "x").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..3 {
        let (status, problem) = lab.get("/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
        assert_eq!(problem["type"], "urn:bezoar:problem:not-ready", "{problem}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    until_ready_is(&lab, StatusCode::OK).await;
    lab.send("default", &[], "x").await;
}

/// Nobody sends anything, and still it is found out.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_does_not_wait_for_a_message() {
    let lab = Lab::start("").await;
    let other = Connection::open(lab.folder.path().join("bezoar.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(lab.get("/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
    other.execute_batch("ROLLBACK").unwrap();
    until_ready_is(&lab, StatusCode::OK).await;
}
