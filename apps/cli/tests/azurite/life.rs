//! The life of messages that another program sends.

use serde_json::json;
use test_support::azurite::Azurite;

use crate::{
    endpoint::Endpoint,
    lab::{Lab, ask, dead_letter, python, reveal},
};

pub(crate) fn route(port: u16) -> String {
    format!(
        "[[route]]\nname = \"results\"\nfrom = \"lab/QUEUE\"\nto = \"http://127.0.0.1:{port}/\"\n\
         retry = {{ max_retries = 2, first = \"1s\", multiplier = 1.0, max = \"1s\", jitter = 0.0 }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn messages_of_python_are_delivered_retried_set_aside_revealed_replayed_and_discarded() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::new("", &route(endpoint.port));
    lab.python("send", &["fine"]);
    lab.python("send64", &["flaky é"]);
    let (_gateway, client) = lab.up();
    lab.python("send", &["poison"]);

    endpoint.until(|all| all.iter().filter(|it| it.status == 200).count() == 2).await;
    let flaky = |it: &&crate::endpoint::Arrival| *it.body == *"flaky é".as_bytes();
    let attempts: Vec<_> = endpoint.arrivals().iter().filter(flaky).map(|it| it.attempt).collect();
    assert_eq!(attempts, [1, 2], "retried");

    let letter = dead_letter(&client).await;
    assert_eq!(letter["queue"], lab.name());
    assert_eq!(reveal(&client, &letter).await, b"poison");
    client.until(&lab.name(), |row| row["dead"] == 1).await; // in the catalogue only
    assert_eq!(python("count", &lab.poison(), &[]), 0, "it was taken in");

    endpoint.cure();
    let wanted = json!({ "ids": [letter["id"]], "reason": "fixed" });
    let (status, replay) = ask(&client, "/v1/replays", wanted).await;
    assert_eq!(status, 202, "{replay}");
    endpoint.until(|all| all.iter().any(|it| &*it.body == b"poison" && it.status == 200)).await;
    client.until(&lab.name(), |row| row["dead"] == 0 && row["total"] == 0).await;
    assert_eq!(lab.python("count", &[]), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_dead_letter_can_be_discarded() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::new("", &route(endpoint.port));
    let (_gateway, client) = lab.up();
    lab.python("send", &["poison"]);
    let letter = dead_letter(&client).await;
    let wanted = json!({ "ids": [letter["id"]], "reason": "old", "expect": 1 });
    let (status, discarded) = ask(&client, "/v1/discards", wanted).await;
    assert_eq!(status, 202, "{discarded}");
    client.until(&lab.name(), |row| row["dead"] == 0).await;
    assert_eq!([lab.python("count", &[]), python("count", &lab.poison(), &[])], [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_route_delivers_as_many_at_a_time_as_its_loops_and_batches_say() {
    let endpoint = Endpoint::slow(std::time::Duration::from_secs(2)).await;
    let lab = Lab::new("fetch_loops = 2\nbatch_concurrency = 3", &route(endpoint.port));
    lab.python("send_many", &["18"]);
    let (_gateway, client) = lab.up();
    endpoint.until(|all| all.len() == 18).await;
    assert_eq!(endpoint.peak(), 6, "2 loops of 3 messages");
    client.until(&lab.name(), |row| row["total"] == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_shared_access_signature_is_enough() {
    let (azurite, endpoint) = (Azurite::shared(), Endpoint::start().await);
    let sas = python("sas", "any", &[]).as_str().unwrap().to_owned();
    let (port, name) = (azurite.queue_port(), azurite.account());
    let account =
        format!("account = \"http://127.0.0.1:{port}/{name}\"\nsas = \"env:LAB_ACCOUNT\"");
    let lab = Lab::with(&account, sas, "", &route(endpoint.port));
    let (_gateway, client) = lab.up();
    client.until(&lab.name(), |row| row["total"] == 0).await; // the route creates its queue
    let reply = client.post(&lab.path("messages"), &[], "poison".into()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let letter = dead_letter(&client).await;
    assert_eq!(reveal(&client, &letter).await, b"poison");
}
