//! Messages that are too large for a queue, and the claim check.

use bytes::Bytes;
use http::Method;
use serde_json::json;
use test_support::azurite::Azurite;

use crate::{
    endpoint::Endpoint,
    lab::{Lab, ask, dead_letter, reveal},
    life::route,
    proxy::{Answered, AzureProxy, Behaviour},
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_message_that_is_too_large_is_refused_with_the_way_out() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::new("", &route(endpoint.port));
    let (_gateway, client) = lab.up();
    let body = Bytes::from(vec![b'x'; 60_000]);
    let headers = [("bezoar-id", "scan-7")];
    let reply = client.post(&lab.path("messages"), &headers, body).await;
    let problem = reply.json();
    assert_eq!(reply.status, 413, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    for part in ["azurequeue", "scan-7", "60000 bytes", "at most 46080", "`claim_check`"] {
        assert!(detail.contains(part), "{part} is not in: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn the_claim_check_carries_large_bodies() {
    let endpoint = Endpoint::start().await;
    let container = format!("bodies-{:08x}", rand::random::<u32>());
    let claim_check =
        format!("claim_check = {{ container = \"{container}\", max_bytes = \"1MiB\" }}");
    let lab = Lab::new(&claim_check, &route(endpoint.port));
    let (_gateway, client) = lab.up();
    let large = Bytes::from(vec![b'x'; 300_000]);
    let reply = client.post(&lab.path("messages"), &[], large.clone()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    endpoint.until(|all| all.iter().any(|it| it.status == 200)).await;
    assert_eq!(endpoint.arrivals()[0].body, large);
    let reply = client.post(&lab.path("messages"), &[], vec![b'x'; 2_000_000].into()).await;
    assert_eq!(reply.status, 413, "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_large_dead_letter_is_taken_in_and_replayed_with_its_body() {
    let endpoint = Endpoint::start().await;
    let container = format!("bodies-{:08x}", rand::random::<u32>());
    let claim_check = format!("claim_check = {{ container = \"{container}\" }}");
    let lab = Lab::new(&claim_check, &route(endpoint.port));
    let (_gateway, client) = lab.up();
    let large = Bytes::from(["poison".as_bytes(), &vec![b'x'; 200_000]].concat());
    let reply = client.post(&lab.path("messages"), &[], large.clone()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let letter = dead_letter(&client).await;
    assert_eq!(reveal(&client, &letter).await, large);
    endpoint.cure();
    let wanted = json!({ "ids": [letter["id"]], "reason": "fixed" });
    assert_eq!(ask(&client, "/v1/replays", wanted).await.0, 202);
    endpoint.until(|all| all.iter().any(|it| it.status == 200 && it.body == large)).await;
    client.until(&lab.name(), |row| row["dead"] == 0 && row["total"] == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_body_without_a_message_is_removed_after_its_age() {
    let azurite = Azurite::shared();
    let proxy = AzureProxy::before(azurite.blob_port()).await;
    let blobs = |port: u16| format!("BlobEndpoint=http://127.0.0.1:{port}/");
    let account = azurite.connection_string();
    let account = account.replace(&blobs(azurite.blob_port()), &blobs(proxy.port));
    let container = format!("bodies-{:08x}", rand::random::<u32>());
    let claim_check =
        format!("claim_check = {{ container = \"{container}\", orphans_after = \"1h\" }}");
    let lab = Lab::at(account, &claim_check, "[[queue]]\nname = \"lab/QUEUE\"");
    let (gateway, client) = lab.up();
    let large = Bytes::from(vec![b'x'; 200_000]);
    assert_eq!(client.post(&lab.path("messages"), &[], large).await.status, 202);
    gateway.stop();
    lab.python("clear", &[]);

    let listed = |it: &Answered| it.query.contains("comp=list");
    let deleted = |it: &Answered| it.method == Method::DELETE && it.status == 202;
    let before = proxy.count(listed);
    let too_new = lab.up().0;
    proxy.until(before + 1, listed).await;
    assert!(too_new.stop().status.success());
    assert_eq!(proxy.count(deleted), 0);

    proxy.behave(Behaviour::OldBlobs);
    let _old_enough = lab.up();
    proxy.until(1, deleted).await;
}
