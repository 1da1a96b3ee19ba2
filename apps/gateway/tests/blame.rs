//! Who is blamed for a failure: poison dies and holds up nobody, and an outage costs no message.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use http::StatusCode;
use support::{Endpoint, Lab, route};

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

/// With the breaker as it is by default, but shorter pauses.
fn sensitive(port: u16) -> String {
    route(port, "").replace("failures = 100", "failures = 5")
}

/// Once its breaker is open nothing is sent within the time of a test.
fn with_long_pauses(port: u16) -> String {
    sensitive(port).replace("\"100ms\"", "\"1h\"").replace("\"200ms\"", "\"1h\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_messages_that_fail_forever_are_dead_letters_after_their_retries() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&sensitive(endpoint.port)).await;
    for _ in 0..2 {
        lab.send("lab", &[], "answer 500").await;
    }
    let row = lab.until("lab", |row| row["dead"] == 2).await;
    assert_eq!((&row["route"]["breaker"], endpoint.so_far()), (&"closed".into(), 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_ahead_of_healthy_messages_dies_and_the_healthy_ones_arrive() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&sensitive(endpoint.port)).await;
    for _ in 0..20 {
        lab.send("lab", &[], "answer 500").await;
    }
    for _ in 0..20 {
        lab.send("lab", &[], "x").await;
    }
    lab.until("lab", |row| {
        row["dead"] == 20 && row["ready"] == 0 && row["delayed"] == 0 && row["in_flight"] == 0
    })
    .await;
    assert_eq!(endpoint.so_far(), 20 * 3 + 20, "each its attempts, and not one more");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_waits_for_an_endpoint_that_is_not_running() {
    let (endpoint, serving) = Endpoint::start_on(0).await;
    serving.abort();
    let _ = serving.await;
    let lab = Lab::start(&sensitive(endpoint.port)).await;
    lab.send("lab", &[], "x").await;
    lab.until_tried(3.0).await; // as often as it may fail
    let (_, status) = lab.get("/v1/status").await;
    assert_eq!(
        (&status["verdict"], &status["reasons"][0]["code"]),
        (&"warning".into(), &"route-failing".into())
    );
    let detail = status["reasons"][0]["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("route results: the last ") && detail.ends_with(" (connect.refused)"),
        "{detail}"
    );
    let (endpoint, _serving) = Endpoint::start_on(endpoint.port).await;
    endpoint.requests(1).await;
    let row = lab.until("lab", |row| row["in_flight"] == 0 && row["delayed"] == 0).await;
    assert_eq!(row["dead"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_says_why_and_resume_probes_at_once() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([503; 5]);
    let lab = Lab::start(&with_long_pauses(endpoint.port)).await;
    for _ in 0..6 {
        lab.send("lab", &[], "x").await;
    }
    let row = lab.until("lab", |row| row["route"]["breaker"] == "open").await;
    assert_eq!(row["route"]["breaker_code"], "http.503");
    assert!(row["route"]["breaker_open_seconds"].as_f64().unwrap() >= 0.0);
    assert!(row["route"]["breaker_next_probe_seconds"].as_f64().unwrap() > 3_000.0);
    let (status, _) = lab.post("/v1/routes/results/resume", &[], "").await;
    assert_eq!(status, StatusCode::OK);
    let row = lab.until("lab", |row| row["route"]["breaker"] == "closed").await;
    assert!(row["route"]["breaker_code"].is_null());
    assert!(row["route"]["breaker_next_probe_seconds"].is_null());
    assert_eq!(endpoint.so_far(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_whose_endpoint_is_gone_stays_paused_after_a_restart() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([410]);
    let text = sensitive(endpoint.port);
    let mut lab = Lab::start(&text).await;
    lab.send("lab", &[], "x").await;
    lab.until("lab", |row| !row["route"]["paused"].is_null()).await;
    lab.until_audited("pause").await;
    lab = lab.restarted(&text).await;
    let row = lab.until("lab", |_| true).await;
    assert_eq!(row["route"]["paused"], "the endpoint is gone (410)");
    let (status, _) = lab.post("/v1/routes/results/resume", &[], "").await;
    assert_eq!(status, StatusCode::OK);
    lab = lab.restarted(&text).await;
    let row = lab.until("lab", |_| true).await;
    assert!(row["route"]["paused"].is_null());
    assert_eq!(row["dead"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_is_about_one_message_once_others_succeeded() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&sensitive(endpoint.port)).await;
    lab.send("lab", &[], "x").await;
    endpoint.requests(1).await;
    lab.until("lab", |row| row["in_flight"] == 0 && row["ready"] == 0).await;
    lab.send("lab", &[], "answer 410").await;
    let row = lab.until("lab", |row| row["dead"] == 1).await;
    assert!(row["route"]["paused"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_whose_canary_waits_says_so_and_can_be_cancelled() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([422; 3]);
    let lab = Lab::start(&sensitive(endpoint.port)).await;
    for _ in 0..3 {
        lab.send("lab", &[], "x").await;
    }
    lab.until("lab", |row| row["dead"] == 3).await;
    endpoint.answers([503; 10_000]);
    let order = r#"{"filter": {}, "reason": "mended", "canary": 1}"#;
    let (status, replay) = lab.post("/v1/replays", JSON, order).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{replay}");
    let path = format!("/v1/replays/{}", replay["id"].as_str().unwrap());
    let waiting = async {
        while lab.get(&path).await.1["canary_waiting_seconds"].is_null() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(support::PATIENCE, waiting).await.expect("the replay says that it waits");
    endpoint.requests(5).await; // the canary is tried, and has no outcome
    let order = r#"{"command": "cancel", "reason": "the endpoint is down"}"#;
    let (status, cancelled) = lab.post(&path, JSON, order).await;
    assert_eq!((status, &cancelled["state"]), (StatusCode::OK, &"cancelled".into()), "{cancelled}");
    assert!(cancelled["canary_waiting_seconds"].is_null());
    let row = lab.until("lab", |row| row["dead"] == 2).await;
    assert_eq!(row["route"]["breaker"], "closed", "one message opens nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_fails_does_not_hold_up_another_one_to_the_same_host() {
    let endpoint = Endpoint::start().await;
    let failing = with_long_pauses(endpoint.port);
    let well = failing.replace("\"results\"", "\"well\"").replace("\"lab\"", "\"ward\"");
    let lab = Lab::start(&format!("{failing}{well}")).await;
    for _ in 0..5 {
        lab.send("lab", &[], "answer 500").await;
    }
    lab.until("lab", |row| row["route"]["breaker"] == "open").await;
    let so_far = endpoint.so_far();
    lab.send("ward", &[], "x").await;
    endpoint.requests(so_far + 1).await;
    let row = lab.until("ward", |row| row["in_flight"] == 0 && row["ready"] == 0).await;
    assert_eq!(row["route"]["breaker"], "closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_of_poison_that_fall_due_together_do_not_open_the_breaker() {
    let endpoint = Endpoint::start().await;
    let retry = "max_retries = 1, first = \"2s\", multiplier = 1.0, max = \"2s\"";
    let quick = "max_retries = 2, first = \"10ms\", multiplier = 1.0, max = \"1s\"";
    let lab = Lab::start(&with_long_pauses(endpoint.port).replace(quick, retry)).await;
    for number in 0..5 {
        for (body, requests) in [("answer 500", 2 * number + 1), ("x", 2 * number + 2)] {
            lab.send("lab", &[], body).await;
            endpoint.requests(requests).await;
            lab.until("lab", |row| row["in_flight"] == 0 && row["ready"] == 0).await;
        }
    }
    let row = lab.until("lab", |row| row["dead"] == 5).await;
    assert_eq!((&row["route"]["breaker"], endpoint.so_far()), (&"closed".into(), 15));
}

/// Reads acknowledgements, and starts paused.
fn acknowledged(port: u16) -> String {
    let text = with_long_pauses(port).replace("\"10ms\"", "\"1h\"").replace("\"1s\"", "\"1h\"");
    text.replace("from =", "ack = \"hl7\"\npaused = true\nfrom =")
}

async fn resume(lab: &Lab) {
    let (status, _) = lab.post("/v1/routes/results/resume", &[], "").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_acknowledges_nothing_gets_a_few_messages_once_and_kills_none() {
    let endpoint = Endpoint::start().await; // it answers 200 with an empty body
    let lab = Lab::start(&acknowledged(endpoint.port)).await;
    for number in 0..40 {
        lab.send("lab", &[], &format!("MSH|^~\\&|||||||ORU^R01|{number}|P|2.5\r")).await;
    }
    resume(&lab).await; // with all of them waiting
    lab.until("lab", |row| row["route"]["breaker"] == "open").await;
    let row = lab.until("lab", |row| row["in_flight"] == 0).await;
    assert_eq!((&row["dead"], &row["route"]["breaker_code"]), (&0.into(), &"hl7.no-ack".into()));
    let requests = endpoint.requests(5).await;
    let different: std::collections::HashSet<_> = requests.iter().map(|(_, body)| body).collect();
    assert_eq!(different.len(), requests.len(), "none of them twice");
    // 16 at a time, and one more for each that failed before the fifth opened the breaker.
    assert!(requests.len() <= 20, "{} of 40", requests.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_hl7_dies_at_once_where_acknowledgements_are_read() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&acknowledged(endpoint.port)).await;
    resume(&lab).await;
    for body in ["{}", "PID|1", "MSH|^~\\&|||||||ORU^R01||P|2.5\r"] {
        lab.send("lab", &[], body).await;
    }
    lab.until("lab", |row| row["dead"] == 3).await;
    let (_, list) = lab.get("/v1/dead-letters?queue=lab").await;
    let letters = list["items"].as_array().unwrap();
    let codes: Vec<_> = letters.iter().map(|it| it["error"]["code"].as_str().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == "hl7.no-msh").count(), 2);
    assert!(codes.contains(&"hl7.no-control-id"), "{codes:?}");
    assert_eq!(endpoint.so_far(), 0, "nothing was sent");
}
