//! The real program between a queue and HL7 receivers, by MLLP and by HTTP with acknowledgements: receivers of ours, and
//! those of the Python package `hl7`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod receivers;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::StatusCode;
use receivers::Receivers;
use serde_json::{Value, json};
use support::{client::Client, hl7_receivers::hl7, program::Program};

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_delivered_by_mllp_and_by_http_with_acknowledgements() {
    check(Receivers::ours()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Python package hl7 in BEZOAR_TEST_HL7; `cargo xtask test` has it"]
async fn receivers_of_another_library_understand_us_and_we_them() {
    check(Receivers::in_python()).await;
}

/// Five messages on each route: two are accepted, one is rejected, one fails, and one is not HL7.
async fn check(receivers: Receivers) {
    let folder = tempfile::tempdir().unwrap();
    configure(folder.path(), &receivers);
    let program = Program::up(folder.path());
    let client = Client::of_folder(program.address, &folder.path().join("data"));
    for queue in ["mllp", "http"] {
        for (number, says) in ["accept", "accept", "reject", "error"].iter().enumerate() {
            send(&client, queue, hl7(&format!("{queue}-{number}"), says)).await;
        }
        send(&client, queue, NOT_HL7.to_owned()).await;
    }
    for queue in ["mllp", "http"] {
        let row = client.until(queue, |row| row["dead"] == 3).await;
        assert_eq!(
            (&row["ready"], &row["delayed"], &row["in_flight"]),
            (&0.into(), &0.into(), &0.into())
        );
        let dead = client.get(&format!("/v1/dead-letters?queue={queue}")).await.json();
        let dead = dead["items"].as_array().unwrap();
        let mut codes: Vec<_> = dead.iter().map(|it| it["error"]["code"].clone()).collect();
        codes.sort_by_key(Value::to_string);
        assert_eq!(codes, ["hl7.ae", "hl7.ar", "hl7.no-msh"], "{queue}");
        let odd = dead.iter().find(|it| it["error"]["code"] == "hl7.no-msh").unwrap();
        assert_eq!(revealed(&client, odd["id"].as_str().unwrap()).await, NOT_HL7);
    }
    let said = program.stop();
    assert!(said.status.success());
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("CANARY"), "{}", said.stderr);
    // The message with an error was tried twice, all others once.
    let mut seen = receivers.seen();
    seen.sort();
    let expected = ["http", "mllp"].map(|queue| [0, 1, 2, 3, 3].map(|it| format!("{queue}-{it}")));
    assert_eq!(seen, expected.concat());
}

const NOT_HL7: &str = "CANARY is no HL7";

fn configure(folder: &Path, receivers: &Receivers) {
    let (mllp, http) = (receivers.mllp, receivers.http);
    let retry = r#"retry = { max_retries = 1, first = "10ms", max = "10ms" }"#;
    let text = format!(
        r#"
        server.listen = "127.0.0.1:0"
        store.url = "sqlite:data/bezoar.db"
        [[route]]
        name = "mllp"
        from = "mllp"
        to = "mllp://127.0.0.1:{mllp}"
        {retry}
        [[route]]
        name = "http"
        from = "http"
        to = "http://127.0.0.1:{http}/hl7"
        ack = "hl7"
        {retry}
        "#
    );
    std::fs::write(folder.join("bezoar.toml"), text).unwrap();
}

async fn send(client: &Client, queue: &str, body: String) {
    let path = format!("/v1/queues/{queue}/messages");
    let reply = client.post(&path, &[], Bytes::from(body)).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
}

async fn revealed(client: &Client, id: &str) -> String {
    let wanted = json!({ "reason": "a test", "what": ["body"] }).to_string();
    let headers = [("content-type", "application/json")];
    let path = format!("/v1/dead-letters/{id}/reveal");
    let reply = client.post(&path, &headers, Bytes::from(wanted)).await.json();
    let body = reply["body_base64"].as_str().unwrap_or_else(|| panic!("{reply}"));
    String::from_utf8(STANDARD.decode(body).unwrap()).unwrap()
}
