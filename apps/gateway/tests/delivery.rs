//! From acceptance to an endpoint, with everything that can go wrong between.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use http::StatusCode;
use support::{Endpoint, Lab, route};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_delivered_with_what_is_known_about_it() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&route(endpoint.port, "")).await;
    let headers = [
        ("bezoar-id", "m-1"),
        ("bezoar-type", "lab.result"),
        ("bezoar-correlation-id", "c-7"),
        ("bezoar-header-ward", "7b"),
        ("content-type", "text/plain"),
    ];
    lab.send("lab", &headers, "Hb 14.1").await;
    let (got, body) = endpoint.requests(1).await.remove(0);
    assert_eq!(body, "Hb 14.1");
    let expected = [
        ("bezoar-id", "m-1"),
        ("bezoar-type", "lab.result"),
        ("bezoar-correlation-id", "c-7"),
        ("bezoar-header-ward", "7b"),
        ("bezoar-attempt", "1"),
        ("content-type", "text/plain"),
    ];
    for (name, value) in expected {
        assert_eq!(got.get(name).unwrap(), value, "{name}");
    }
    lab.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_message_is_retried_and_then_dead_lettered_with_its_history() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([500, 503, 500, 500]);
    let lab = Lab::start(&route(endpoint.port, "")).await;
    lab.send("lab", &[("bezoar-id", "m-1")], "CANARY").await;
    lab.until("lab", |row| row["dead"] == 1).await;
    let (_, list) = lab.get("/v1/dead-letters?queue=lab").await;
    let dead = &list["items"][0];
    assert_eq!(dead["reason"], "max retries (2) exhausted");
    assert_eq!(dead["error"]["code"], "http.500");
    let (_, shown) = lab.get(&format!("/v1/dead-letters/{}", dead["id"].as_str().unwrap())).await;
    let codes: Vec<_> =
        shown["history"].as_array().unwrap().iter().map(|it| it["code"].clone()).collect();
    assert_eq!(codes, ["http.500", "http.500", "http.500"]);
    let uncounted = &shown["uncounted"];
    assert_eq!((&uncounted["count"], &uncounted["suspected"]), (&1.into(), &0.into()));
    assert_eq!(uncounted["code"], "http.503");
    assert!(!format!("{list}{shown}").contains("CANARY"));
    assert_eq!(endpoint.so_far(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_not_retried() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([422]);
    let lab = Lab::start(&route(endpoint.port, "")).await;
    lab.send("lab", &[], "x").await;
    lab.until("lab", |row| row["dead"] == 1).await;
    assert_eq!(endpoint.so_far(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_an_endpoint_is_down_its_messages_wait_and_use_up_no_retries() {
    let (endpoint, serving) = Endpoint::start_on(0).await;
    serving.abort();
    let _ = serving.await;
    let text = route(endpoint.port, "").replace("failures = 100", "failures = 2");
    let lab = Lab::start(&text).await;
    for number in 0..20 {
        lab.send("lab", &[], &number.to_string()).await;
    }
    lab.until("lab", |row| row["route"]["breaker"] != "closed").await;
    let (endpoint, _serving) = Endpoint::start_on(endpoint.port).await;
    endpoint.requests(20).await;
    let row = lab
        .until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0 && row["delayed"] == 0)
        .await;
    assert_eq!(row["dead"], 0, "{row}");
    assert_eq!(row["route"]["breaker"], "closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_route_takes_nothing_until_it_is_resumed() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&route(endpoint.port, "")).await;
    assert_eq!(lab.post("/v1/routes/results/pause", &[], "").await.0, StatusCode::OK);
    lab.send("lab", &[], "x").await;
    let row = lab.until("lab", |row| row["ready"] == 1).await;
    assert_eq!(row["route"]["paused"], "paused by an operator");
    assert_eq!(endpoint.so_far(), 0);
    assert_eq!(lab.post("/v1/routes/results/resume", &[], "").await.0, StatusCode::OK);
    endpoint.requests(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_gone_pauses_its_route_and_fails_no_message() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([410]);
    let lab = Lab::start(&route(endpoint.port, "")).await;
    lab.send("lab", &[], "x").await;
    let row = lab.until("lab", |row| !row["route"]["paused"].is_null()).await;
    assert_eq!(row["route"]["paused"], "the endpoint is gone (410)");
    let row = lab.until("lab", |row| row["in_flight"] == 0).await;
    assert_eq!((&row["dead"], endpoint.so_far()), (&0.into(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_is_delivered_once() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&route(endpoint.port, "")).await;
    for _ in 0..3 {
        lab.send("lab", &[("bezoar-id", "same")], "x").await;
    }
    lab.send("lab", &[("bezoar-id", "other")], "x").await;
    endpoint.requests(2).await;
    lab.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    assert_eq!(endpoint.so_far(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_over_routes_and_disturbs_no_others() {
    let (first, second) = (Endpoint::start().await, Endpoint::start().await);
    let lab = Lab::start(&route(first.port, "")).await;
    lab.send("lab", &[], "x").await;
    first.requests(1).await;
    let reload = lab.gateway.reload(lab.config(&route(second.port, ""))).await.unwrap();
    assert_eq!(reload.routes_changed.len(), 1);
    lab.send("lab", &[], "y").await;
    assert_eq!(second.requests(1).await[0].1, "y");
    assert_eq!(first.so_far(), 1);
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_changes_does_not_wait_for_a_delivery_that_hangs() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (hanging, endpoint) = (silent.local_addr().unwrap().port(), Endpoint::start().await);
    let lab = Lab::start(&route(hanging, "")).await;
    lab.send("lab", &[], "first").await;
    lab.until("lab", |row| row["in_flight"] == 1).await;
    let started = std::time::Instant::now();
    lab.gateway.reload(lab.config(&route(endpoint.port, ""))).await.unwrap();
    lab.send("lab", &[], "second").await;
    assert_eq!(endpoint.requests(1).await[0].1, "second");
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "below the route's timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_delivery_is_released_at_shutdown_and_not_left_to_its_lease() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = "[server]\ndrain = \"100ms\"\n";
    let routes = route(silent.local_addr().unwrap().port(), "lease = \"10m\"");
    let lab = Lab::start(&(server.to_owned() + &routes)).await;
    lab.send("lab", &[], "x").await;
    lab.until("lab", |row| row["in_flight"] == 1).await;
    let config = lab.config("[[queue]]\nname = \"lab\"");
    let Lab { gateway, folder, token } = lab;
    gateway.stop().await;
    let metrics = bezoar_gateway::telemetry::Metrics::local();
    let gateway = bezoar_gateway::Gateway::start(config, metrics).await.unwrap();
    let lab = Lab { gateway, folder, token };
    let row = lab.until("lab", |_| true).await;
    assert_eq!((&row["ready"], &row["in_flight"]), (&1.into(), &0.into()), "{row}");
}
