//! The real program answers as `/openapi.json` says, whatever schemathesis (PyPI) asks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../canary/raw.rs"]
#[allow(dead_code, reason = "its bodies do not matter here")]
mod raw;
#[path = "../support/mod.rs"]
mod support;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use bytes::Bytes;
use http::StatusCode;
use raw::Server;
use serde_json::{Value, json};
use support::{client::Client, program::Program};

/// A run can be repeated.
const SEED: &str = "14";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs schemathesis in BEZOAR_TEST_SCHEMATHESIS; `cargo xtask test` has it"]
async fn the_api_is_as_described() {
    check(&[]).await;
}

/// More than 10,000 requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs schemathesis in BEZOAR_TEST_SCHEMATHESIS and many minutes; `cargo xtask soak` runs it"]
async fn soak_the_api_is_as_described() {
    check(&["--max-examples=400"]).await;
}

async fn check(more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Server::start(|_| {
        b"HTTP/1.1 422 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into()
    });
    configure(folder.path(), endpoint.port);
    let program = Program::up(folder.path());
    let client = Client::of_folder(program.address, &folder.path().join("data"));
    fill(&client).await;
    let token = std::fs::read_to_string(folder.path().join("data/token")).unwrap();
    let status = Command::new(schemathesis())
        .arg(format!("--config-file={}", folder.path().join("schemathesis.toml").display()))
        .args(["run", &format!("http://{}/openapi.json", program.address)])
        .args(["-H", &format!("Authorization: Bearer {}", token.trim()), "--seed", SEED])
        .args(["--checks=all", "--continue-on-failure", "--no-color"])
        .args(["--generation-database=none", "--warnings=off"])
        .args(more)
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", folder.path())
        .current_dir(folder.path())
        .status();
    assert!(status.unwrap().success(), "schemathesis found failures; see its report above");
    assert!(program.stop().status.success());
}

/// The program beside the Python interpreter that has it.
fn schemathesis() -> PathBuf {
    let python = std::env::var_os("BEZOAR_TEST_SCHEMATHESIS").expect("BEZOAR_TEST_SCHEMATHESIS");
    PathBuf::from(python).with_file_name("schemathesis")
}

/// What depends on the state of the store is no failure if it is documented: 409, 412, 422, 503 and 507.
const CHECKS: &str = r#"
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503, 507]
positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 412, 422, 503, 507]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 411, 412, 413, 414, 415, 422, 431, 503]
"#;

/// Sends what an import takes, which schemathesis cannot write by itself.
const HOOKS: &str = r#"
import schemathesis

@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
"#;

fn configure(folder: &Path, port: u16) {
    let text = format!(
        r#"
        server.listen = "127.0.0.1:0"
        store.url = "sqlite:data/bezoar.db"
        dead_letters.editable = ["results"]
        [[route]]
        name = "results"
        from = "results"
        to = "http://127.0.0.1:{port}/results"
        retry = {{ max_retries = 0 }}
        "#
    );
    std::fs::write(folder.join("bezoar.toml"), text).unwrap();
    std::fs::write(folder.join("schemathesis.toml"), CHECKS).unwrap();
    std::fs::write(folder.join("hooks.py"), HOOKS).unwrap();
}

/// Dead letters, a cause with a note, an edited version, a replay, and a discard that is only planned.
async fn fill(client: &Client) {
    for number in 0..20 {
        let id = format!("m-{number}");
        let path = "/v1/queues/results/messages";
        let reply = client.post(path, &[("bezoar-id", &id)], Bytes::from("{\"a\":1}")).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED);
    }
    client.until("results", |row| row["dead"] == 20).await;
    let letters = client.get("/v1/dead-letters").await.json();
    let id = |at: usize| letters["items"][at]["id"].as_str().unwrap();
    let cause = letters["items"][0]["cause"].as_str().unwrap();
    let mark = json!({ "state": "acknowledged", "note": "ticket 7" });
    ask(client, &format!("/v1/causes/{cause}"), mark).await;
    let edit = json!({ "reason": "test", "headers": { "a": "b" } });
    ask(client, &format!("/v1/dead-letters/{}/edits", id(0)), edit).await;
    ask(client, "/v1/replays", json!({ "reason": "test", "ids": [id(1)] })).await;
    ask(client, "/v1/discards", json!({ "reason": "test", "ids": [id(2)], "plan": true })).await;
}

async fn ask(client: &Client, path: &str, body: Value) {
    let headers = [("content-type", "application/json")];
    let reply = client.post(path, &headers, Bytes::from(body.to_string())).await;
    assert!(reply.status.is_success(), "{path}: {}", reply.json());
}
