//! What is in bodies, header values, error texts and secrets is shown nowhere: not in the log at its most
//! talkative, not in metrics, traces, replies or what commands print.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod endpoint;
mod places;
mod raw;
mod search;
#[path = "../support/mod.rs"]
mod support;

use std::{path::Path, process::Command};

use bytes::Bytes;
use http::StatusCode;
use places::Places;
use raw::Server;
use search::Search;
use support::{client::Client, program::Program};

/// What must be seen nowhere.
const CANARY: &str = "Canary9c41f07be2d8";
/// A token, which must not be seen either.
const SECRET: &str = "Canary9c41f07be2d8-token";
/// In ids, which may be seen: whoever does not find it has not looked.
const MARKER: &str = "marker-5e0a7d";

#[tokio::test(flavor = "multi_thread")]
async fn the_canary_is_nowhere_in_a_log_of_lines() {
    check("text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_canary_is_nowhere_in_a_log_of_json() {
    check("json").await;
}

/// A configuration that is refused is quoted without its secrets.
#[test]
fn the_canary_is_in_no_complaint_about_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let route = "[[route]]\nname = \"r\"\nfrom = \"lab\"\nto = \"http://h/\"\n";
    for text in [
        route.replace("http://h/", &format!("http://u:{CANARY}@h/")),
        route.replace("http://h/", &format!("ftp://h/{CANARY}?{CANARY}")),
        format!("{route}secret = \"{CANARY}\""),
        format!("{route}secret = 7\nheaders = {{ Authorization = \"{CANARY}\\n\" }}"),
        format!("{route}headers = {{ Authorization = [\"{CANARY}\"] }}"),
        format!("[[token]]\nname = \"a\"\nrole = \"admin\"\nsecret = \"{CANARY}\\u0007\""),
        format!("[telemetry]\notlp_endpoint = \"http://u:{CANARY}@h/\""),
        format!("[[token]]\nsecret = \"{CANARY}"),
    ] {
        std::fs::write(folder.path().join("bezoar.toml"), &text).unwrap();
        for arguments in [&["check"][..], &["config", "show"], &["up"]] {
            let said = places::command(folder.path(), "http://127.0.0.1:1", arguments);
            assert!(!said.is_empty());
            assert_eq!(Search::new(CANARY).find(&said), None, "{arguments:?}: {text}");
        }
    }
}

async fn check(format: &str) {
    let places = everything(format).await;
    let canary = Search::new(CANARY);
    let found: Vec<_> =
        places.iter().filter_map(|(name, seen)| Some((name, canary.find(seen)?))).collect();
    assert!(found.is_empty(), "{found:#?}");
    let marker = Search::new(MARKER);
    for name in ["stderr", "traces and metrics", "/v1/dead-letters", "dead list", "dead show 1"] {
        let (_, seen) = places.iter().find(|(it, _)| it == name).unwrap();
        assert!(marker.find(seen).is_some(), "{name} is not what was searched");
    }
}

/// Runs messages through the program, and gives back all that it showed.
async fn everything(format: &str) -> Places {
    let folder = tempfile::tempdir().unwrap();
    let collector = Server::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into());
    let endpoint = Server::start(endpoint::answer);
    configure(folder.path(), format, endpoint.port, collector.port);
    let program = start(folder.path());
    let client = Client::new(program.address, SECRET);
    send_all(&client).await;
    client.until("lab", |row| row["dead"] == endpoint::REFUSED.len() && row["ready"] == 0).await;
    let mut places = places::replies(&client).await;
    let url = format!("http://{}", program.address);
    places.extend(places::commands(folder.path(), &url));
    let said = program.stop();
    assert!(said.stderr.contains("TRACE"), "at its most talkative");
    assert!(Search::new(CANARY).find(&endpoint.bodies()).is_some(), "the canary was delivered");
    places.push(("stderr".to_owned(), said.stderr.into()));
    places.push(("stdout".to_owned(), said.stdout.into()));
    places.push(("traces and metrics".to_owned(), collector.bodies()));
    places
}

fn start(folder: &Path) -> Program {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
    command.arg("up").current_dir(folder).env_remove("RUST_LOG").env("CANARY_KEY", CANARY);
    Program::start(&mut command)
}

async fn send_all(client: &Client) {
    for kind in endpoint::REFUSED.iter().chain(&["good"]) {
        let id = format!("{MARKER}-{kind}");
        let headers = [
            ("bezoar-id", id.as_str()),
            ("bezoar-type", kind),
            ("bezoar-correlation-id", &id),
            ("bezoar-header-patient", CANARY),
            ("user-agent", CANARY),
            ("traceparent", CANARY),
            ("tracestate", CANARY),
        ];
        let reply = client.post("/v1/queues/lab/messages", &headers, Bytes::from(CANARY)).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    }
}

/// With the canary in every secret.
fn configure(folder: &Path, format: &str, endpoint: u16, collector: u16) {
    let text = format!(
        r#"
        [server]
        listen = "127.0.0.1:0"
        drain = "5s"
        [log]
        format = "{format}"
        level = "trace"
        [telemetry]
        otlp_endpoint = "http://127.0.0.1:{collector}/{CANARY}"
        [[route]]
        name = "results"
        from = "lab"
        to = "http://127.0.0.1:{endpoint}/{CANARY}?token={CANARY}"
        retry = {{ max_retries = 1, first = "10ms", multiplier = 1.0, max = "10ms", jitter = 0.0 }}
        max_retry_after = "10ms"
        breaker = {{ failures = 1000, pause = "10ms", max_pause = "10ms" }}
        secret = "whsec_{CANARY}{CANARY}"
        headers = {{ Authorization = "Bearer {CANARY}", X-Key = "env:CANARY_KEY" }}
        [[token]]
        name = "oncall"
        role = "admin"
        secret = "{SECRET}"
        "#
    );
    std::fs::write(folder.join("bezoar.toml"), text).unwrap();
}
