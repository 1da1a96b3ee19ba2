//! Bad requests get a problem that says what is wrong, never a 500.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;
use support::Lab;

async fn refused(lab: &Lab, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let (status, answer) =
        lab.call(Method::POST, path, headers, Bytes::copy_from_slice(body)).await;
    assert!(status.is_client_error(), "{path} {headers:?}: {status} {answer}");
    (status.as_u16(), answer["detail"].as_str().expect("a problem").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_with_a_reason() {
    let lab = Lab::start("[server]\nmax_body = \"1KiB\"").await;
    let messages = "/v1/queues/default/messages";
    let long = "x".repeat(300);
    let large = vec![b'x'; 1025];
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [u8], u16, &'a str);
    let cases: [Case<'_>; 12] = [
        (messages, &[], &large, 413, "1024"),
        (messages, &[("bezoar-id", &long)], b"", 400, "message id is 300 bytes long"),
        (messages, &[("bezoar-id", "")], b"", 400, "message id is empty"),
        (messages, &[("bezoar-type", "a\tb")], b"", 400, "message type has a control character"),
        (messages, &[("bezoar-delay", "soon")], b"", 400, "delay"),
        (messages, &[("bezoar-delay", "400000d")], b"", 400, "delay"),
        ("/v1/queues/nope/messages", &[], b"", 404, "known queues: default"),
        ("/v1/queues/%00/messages", &[], b"", 404, "control character"),
        ("/v1/queues/..%2f..%2fetc/messages", &[], b"", 404, "unknown queue"),
        ("/v1/queues/default/batches", &[], b"{", 400, "not a JSON array"),
        ("/v1/routes/nope/pause", &[], b"", 404, "unknown route; known routes:"),
        (messages, &[("authorization", "Bearer wrong")], b"", 401, "unknown token"),
    ];
    for (path, headers, body, status, part) in cases {
        let (got, detail) = refused(&lab, path, headers, body).await;
        assert_eq!(got, status, "{path} {headers:?} {detail}");
        assert!(detail.contains(part), "{path}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_reports_the_result_of_each_message() {
    let lab = Lab::start("").await;
    let lines = concat!(
        "{\"id\":\"a\",\"body\":{\"x\":1}}\n",
        "{\"id\":\"\",\"body\":1}\n",
        "not JSON\n",
        "{\"body_base64\":\"!\"}\n",
        "{\"body_base64\":\"AP8=\"}\n",
    );
    let ndjson = [("content-type", "application/x-ndjson")];
    let (status, answer) = lab.post("/v1/queues/default/batches", &ndjson, lines).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!((&answer["accepted"], &answer["refused"]), (&Value::from(2), &Value::from(3)));
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["id"], "a");
    for refused in &results[1..4] {
        assert!(refused["error"]["detail"].is_string(), "{refused}");
    }
    assert!(results[4]["error"].is_null());
    lab.until("default", |row| row["ready"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_described_is_served() {
    let lab = Lab::start("").await;
    let (status, described) = lab.get("/openapi.json").await;
    assert_eq!(status, StatusCode::OK);
    for path in described["paths"].as_object().unwrap().keys() {
        let filled =
            path.replace("{queue}", "default").replace("{route}", "x").replace("{id}", "1");
        let (status, answer) = lab.get(&filled).await;
        assert!(!status.is_server_error(), "{path}: {status} {answer}");
    }
}
