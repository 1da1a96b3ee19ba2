//! Dead letters that stay on their broker.

use http::StatusCode;
use serde_json::json;

use super::broker::*;
use crate::support::{Endpoint, Lab};

/// A gateway that counts the dead letters of its queue, with some.
async fn with_dead_letters(client: &Client, endpoint: &Endpoint, count: u32) -> Lab {
    let watch = format!("[[queue]]\nname = \"{}\"\nwatch = \"count\"", client.name());
    let lab = client.lab(endpoint.port, &watch).await;
    endpoint.answers((0..count).map(|_| 422));
    for number in 0..count {
        client.send(&format!("m-{number}"), "poison").await;
    }
    client.until_dead(count).await;
    lab
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn they_are_counted_and_replayed_on_the_broker() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = with_dead_letters(&client, &endpoint, 3).await;
    lab.until(&client.name(), |row| row["dead"] == 3).await;
    let (_, listed) = lab.get(&format!("/v1/dead-letters?queue={}", client.segment())).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 0, "they are not taken in");
    let path = format!("/v1/queues/{}/replay", client.segment());
    let (status, told) = lab.post(&path, &[], r#"{"reason": "mended"}"#).await;
    assert_eq!((status, told), (StatusCode::OK, json!({ "replayed": 3 })));
    assert_eq!(endpoint.requests(6).await.len(), 6);
    lab.until(&client.name(), |row| row["dead"] == 0 && row["ready"] == 0).await;
    let (_, audit) = lab.get("/v1/audit").await;
    let last = audit["items"].as_array().unwrap().first().unwrap().clone();
    assert_eq!((&last["verb"], &last["reason"]), (&"replay".into(), &"mended".into()), "{last}");
    lab.gateway.stop().await;
}

/// The broker carries neither reason nor history of what is rejected: the gateway keeps both.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn what_is_rejected_keeps_reason_and_history_here() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let reject = format!(
        "dead_letter = \"reject\"\n[[queue]]\nname = \"{}\"\nwatch = \"count\"",
        client.name()
    );
    let lab = client.lab(endpoint.port, &reject).await;
    endpoint.answers([500, 500, 422]);
    client.send("m-1", "poison").await;
    client.until_dead(1).await;
    client.send("m-2", "poison").await;
    client.until_dead(2).await;
    let (_, listed) = lab.get(&format!("/v1/dead-letters?queue={}", client.segment())).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 0, "they stay on the broker");

    let (status, found) = lab.get("/v1/rejections?message_id=m-1").await;
    assert_eq!(status, StatusCode::OK, "{found}");
    let [first] = &found["items"].as_array().unwrap()[..] else { panic!("one: {found}") };
    assert_eq!(first["queue"], client.name());
    assert_eq!(first["reason"], "max retries (1) exhausted");
    let codes: Vec<_> =
        first["history"].as_array().unwrap().iter().map(|it| it["code"].clone()).collect();
    assert_eq!((codes, &first["attempts"]), (vec!["http.500".into(); 2], &2.into()));
    assert_eq!(first["last_failure_at"], first["history"][1]["failed_at"]);

    let (_, all) = lab.get(&format!("/v1/rejections?queue={}", client.segment())).await;
    let ids: Vec<_> =
        all["items"].as_array().unwrap().iter().map(|it| it["message_id"].clone()).collect();
    assert_eq!(ids, ["m-2", "m-1"], "newest first");
    let (_, none) = lab.get("/v1/rejections?message_id=m-3").await;
    assert_eq!(none, json!({ "items": [], "next": null }));
    let (status, _) = lab.get("/v1/rejections?message=m-1").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn discarding_them_needs_their_exact_count() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = with_dead_letters(&client, &endpoint, 2).await;
    let path = format!("/v1/queues/{}/discard", client.segment());
    let (status, told) = lab.post(&path, &[], r#"{"reason": "old", "expect": 5}"#).await;
    assert_eq!((status, &told["found"]), (StatusCode::CONFLICT, &2.into()));
    let (status, told) = lab.post(&path, &[], r#"{"reason": "old", "expect": 2}"#).await;
    assert_eq!((status, told), (StatusCode::OK, json!({ "discarded": 2 })));
    assert_eq!(client.dead().await, 0);
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn queues_with_intake_refuse_on_broker_operations() {
    let (client, endpoint) = (Client::new().await, Endpoint::start().await);
    let lab = client.lab(endpoint.port, "").await;
    for (what, wanted) in
        [("replay", r#"{"reason": "mended"}"#), ("discard", r#"{"reason": "old", "expect": 0}"#)]
    {
        let path = format!("/v1/queues/{}/{what}", client.segment());
        let (status, told) = lab.post(&path, &[], wanted).await;
        assert_eq!(status, StatusCode::CONFLICT, "{told}");
        assert!(
            told["detail"].as_str().unwrap().contains("into the gateway's catalogue"),
            "{told}"
        );
    }
    lab.gateway.stop().await;
}
