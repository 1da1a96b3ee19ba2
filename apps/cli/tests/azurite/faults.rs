//! What is wrong with the account pauses a route and kills nothing.

use test_support::azurite::Azurite;

use crate::{
    endpoint::Endpoint,
    lab::{Lab, python},
    life::route,
    proxy::{AzureProxy, Behaviour},
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_wrong_key_pauses_the_route_and_touches_no_message() {
    let azurite = Azurite::shared();
    let endpoint = Endpoint::start().await;
    let account = azurite.connection_string().replace(azurite.key(), "d3Jvbmc=");
    let lab = Lab::at(account, "", &route(endpoint.port));
    lab.python("send", &["fine"]);
    let (gateway, client) = lab.up();
    let row = client.until(&lab.name(), |row| row["route"]["problem"].is_string()).await;
    assert!(row["route"]["problem"].as_str().unwrap().contains("check the account key"), "{row}");
    for unknown in ["ready", "delayed", "in_flight", "dead", "total"] {
        assert!(row[unknown].is_null(), "unknown is not 0: {row}");
    }
    assert_eq!(client.get("/healthz").await.status, 200);
    let said = gateway.stop();
    assert!(said.status.success(), "{}", said.stderr);
    assert_eq!(lab.python("peek", &[])[0]["dequeue_count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn throttling_pauses_the_route_and_kills_nothing() {
    let azurite = Azurite::shared();
    let endpoint = Endpoint::start().await;
    let proxy = AzureProxy::before(azurite.queue_port()).await;
    let lab = Lab::at(azurite.connection_string_through(proxy.port), "", &route(endpoint.port));
    let (_gateway, client) = lab.up();
    lab.python("send", &["first"]);
    endpoint.until(|all| all.len() == 1).await;
    proxy.behave(Behaviour::Busy);
    lab.python("send", &["second"]);
    client.until(&lab.name(), |row| row["route"]["problem"].is_string()).await;
    let row = client.until(&lab.name(), |row| row["problem"].is_string()).await;
    assert!(row["problem"].as_str().unwrap().contains("ServerBusy"), "{row}");
    assert!(proxy.count(|it| it.status == 503) > 0);
    proxy.behave(Behaviour::Forward);
    endpoint.until(|all| all.len() == 2).await;
    client.until(&lab.name(), |row| row["route"]["problem"].is_null() && row["total"] == 0).await;
    assert!(endpoint.arrivals().iter().all(|it| it.attempt == 1), "it used up no attempt");
    assert_eq!(python("count", &lab.poison(), &[]), 0);
}
