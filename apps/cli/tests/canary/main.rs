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
use support::{PATIENCE, client::Client, program::Program};

/// What must be seen nowhere.
const CANARY: &str = "Canary9c41f07be2d8";
/// A token, which must not be seen either.
const SECRET: &str = "Canary9c41f07be2d8-token";
/// In ids, which may be seen: whoever does not find it has not looked.
const MARKER: &str = "marker-5e0a7d";

#[tokio::test(flavor = "multi_thread")]
async fn the_canary_is_nowhere_in_a_log_of_lines() {
    check("text", &Queue::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_canary_is_nowhere_in_a_log_of_json() {
    check("json", &Queue::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test starts one"]
async fn the_canary_is_nowhere_with_a_broker() {
    check("text", &Queue::on_broker()).await;
}

/// The switch for development: what the endpoint said is in the log, with a warning, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn error_texts_are_in_the_log_if_the_program_is_told_so() {
    let (folder, queue) = (tempfile::tempdir().unwrap(), Queue::embedded());
    let collector = Server::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into());
    let endpoint = Server::start(endpoint::answer);
    configure(folder.path(), "text", &queue, (endpoint.port, collector.port));
    let program = start(folder.path(), &["up", "--show-error-texts"]);
    let client = Client::new(program.address, SECRET);
    send(&client, &queue, "refused").await;
    client.until(&queue.name, |row| row["dead"] == 1).await;
    let stderr = program.stop().stderr;
    assert!(stderr.contains("bezoar: WARNING: --show-error-texts"), "{stderr}");
    assert!(stderr.contains("ERROR TEXTS ARE SHOWN IN THIS LOG"), "{stderr}");
    let shown: Vec<_> = stderr.lines().filter(|line| line.contains(CANARY)).collect();
    let expected = format!("error_text=\"{CANARY}\"");
    assert!(matches!(shown[..], [line] if line.contains(&expected)), "{shown:#?}");
    assert_eq!(
        Search::new(CANARY).find(&collector.bodies()),
        None,
        "it does not leave the machine"
    );
}

/// The queue that messages go through.
struct Queue {
    name: String,
    /// What has to be configured for it.
    transport: String,
}

impl Queue {
    fn embedded() -> Self {
        Self { name: "lab".to_owned(), transport: String::new() }
    }

    /// Beside it there is one that is configured and not on the broker: what is sent there comes back.
    fn on_broker() -> Self {
        let url = std::env::var("BEZOAR_TEST_AMQP").unwrap();
        let transport = format!(
            "[transports.hospital]\nurl = \"{url}\"\n[[queue]]\nname = \"lab\"\n\
             [[queue]]\nname = \"{NOWHERE}\"\nwatch = \"count\"\n"
        );
        Self { name: format!("hospital/canary-{:08x}", rand::random::<u32>()), transport }
    }
}

const NOWHERE: &str = "hospital/canary-nowhere";

/// A configuration that is refused is quoted without its secrets.
#[test]
fn the_canary_appears_in_no_configuration_problem() {
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
        format!("[transports.h]\nurl = \"http://u:{CANARY}@h/\""),
        format!("[transports.h]\nurl = \"amqp://u:{CANARY}@\""),
        format!("[transports.h]\nurl = \"amqp://h:{CANARY}\"\n[[queue]]\nname = \"h/q\""),
        format!(
            "[transports.h]\nurl = \"amqp://u:{CANARY}@127.0.0.1:1\"\nmanagement_url = \
             \"http://u:{CANARY}@127.0.0.1:1\"\n[[queue]]\nname = \"h/q\"\n[server]\nlisten = \"nowhere\""
        ),
        format!("[transports.lab]\nurl = \"azurequeue:\"\nconnection_string = \"{CANARY}\""),
        format!(
            "[transports.lab]\nurl = \"azurequeue:\"\naccount = \"https://h/?sig={CANARY}\"\nsas = \"{CANARY}\""
        ),
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

async fn check(format: &str, queue: &Queue) {
    let places = everything(format, queue).await;
    let canary = Search::new(CANARY);
    let found: Vec<_> =
        places.iter().filter_map(|(name, seen)| Some((name, canary.find(seen)?))).collect();
    assert!(found.is_empty(), "{found:#?}");
    let marker = Search::new(MARKER);
    for name in ["stderr", "traces and metrics", "/v1/dead-letters", "dead list", "dead show ID"] {
        let (_, seen) = places.iter().find(|(it, _)| it == name).unwrap();
        assert!(marker.find(seen).is_some(), "{name} is not what was searched");
    }
}

/// Runs messages through the program, and gives back all that it showed.
async fn everything(format: &str, queue: &Queue) -> Places {
    let folder = tempfile::tempdir().unwrap();
    let collector = Server::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into());
    let endpoint = Server::start(endpoint::answer);
    configure(folder.path(), format, queue, (endpoint.port, collector.port));
    let program = start(folder.path(), &["up"]);
    let client = Client::new(program.address, SECRET);
    client.until(&queue.name, |row| row["ready"] == 0).await;
    send_all(&client, queue).await;
    let dead = |row: &serde_json::Value| row["dead"] == endpoint::REFUSED.len();
    client.until(&queue.name, |row| dead(row) && row["ready"] == 0).await;
    until_listed(&client).await;
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

/// Those of a broker are counted before they are in the catalogue.
async fn until_listed(client: &Client) {
    let listing = async {
        loop {
            let listed: serde_json::Value =
                serde_json::from_slice(&client.get("/v1/dead-letters").await.body).unwrap();
            if listed["items"].as_array().unwrap().len() == endpoint::REFUSED.len() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), listing)
        .await
        .expect("they are listed");
}

fn start(folder: &Path, arguments: &[&str]) -> Program {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
    command.args(arguments).current_dir(folder).env_remove("RUST_LOG").env("CANARY_KEY", CANARY);
    Program::start(&mut command)
}

async fn send_all(client: &Client, queue: &Queue) {
    for kind in endpoint::REFUSED.iter().chain(&["good"]) {
        send(client, queue, kind).await;
    }
}

async fn send(client: &Client, queue: &Queue, kind: &str) {
    let path = |queue: &str| format!("/v1/queues/{}/messages", queue.replace('/', "%2F"));
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
    let started = std::time::Instant::now();
    let mut reply = client.post(&path(&queue.name), &headers, Bytes::from(CANARY)).await;
    // On a busy machine a quorum queue that was just declared has no leader for a moment.
    while reply.status == StatusCode::INSUFFICIENT_STORAGE && started.elapsed() < PATIENCE {
        reply = client.post(&path(&queue.name), &headers, Bytes::from(CANARY)).await;
    }
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
    if !queue.transport.is_empty() {
        let reply = client.post(&path(NOWHERE), &headers, Bytes::from(CANARY)).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{reply:?}");
    }
}

/// With the canary in every secret.
fn configure(folder: &Path, format: &str, queue: &Queue, (endpoint, collector): (u16, u16)) {
    let Queue { name, transport } = queue;
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
        {transport}
        [[route]]
        name = "results"
        from = "{name}"
        to = "http://127.0.0.1:{endpoint}/{CANARY}?token={CANARY}"
        retry = {{ max_retries = 1, first = "10ms", multiplier = 1.0, max = "10ms", jitter = 0.0 }}
        max_retry_after = "10ms"
        max_outage = "1s"
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
