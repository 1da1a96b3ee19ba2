//! Everywhere that something is shown.

use std::path::Path;

use assert_cmd::Command;
use bytes::Bytes;
use http::Method;

use crate::{CANARY, SECRET, support::client::Client};

/// Names of places and what was seen there.
pub(crate) type Places = Vec<(String, Vec<u8>)>;

/// What the API answers, to good requests and to bad ones that hold the canary.
pub(crate) async fn replies(client: &Client) -> Places {
    let mut places = Places::new();
    for path in ["/v1/queues", "/v1/dead-letters", "/v1/whoami", "/metrics", "/openapi.json"] {
        places.push((path.to_owned(), client.get(path).await.body.into()));
    }
    let listed = client.get("/v1/dead-letters?limit=10").await.json();
    for letter in listed["items"].as_array().unwrap() {
        let path = format!("/v1/dead-letters/{}", letter["id"].as_str().unwrap());
        places.push((path.clone(), client.get(&path).await.body.into()));
    }
    for (path, name, value, body) in bad_requests() {
        let method = if body.is_empty() { Method::GET } else { Method::POST };
        let reply = client.try_call(method, &path, &[(name, &value)], body).await.unwrap();
        assert!(!reply.status.is_server_error(), "{path}: {reply:?}");
        places.push((format!("{path} {name}: {value}"), reply.body.into()));
    }
    places
}

/// Path, a header and its value, body; without a body it is a GET.
fn bad_requests() -> Vec<(String, &'static str, String, Bytes)> {
    let (messages, batches) = ("/v1/queues/lab/messages", "/v1/queues/lab/batches");
    let one = |path: &str, name, value: &str, body: &str| {
        (path.to_owned(), name, value.to_owned(), Bytes::copy_from_slice(body.as_bytes()))
    };
    let lines = format!("{CANARY}\n{{\"{CANARY}\":1}}\n{{\"delay\":\"{CANARY}\",\"body\":1}}\n");
    let array =
        format!("[\"{CANARY}\",{{\"body_base64\":\"{CANARY}!\"}},{{\"id\":[\"{CANARY}\"]}}]");
    vec![
        one(messages, "authorization", &format!("Bearer {CANARY}"), CANARY),
        one(messages, "authorization", CANARY, CANARY),
        one(messages, "bezoar-delay", CANARY, CANARY),
        one(messages, "traceparent", CANARY, CANARY),
        one(batches, "content-type", "application/x-ndjson", &lines),
        one(batches, "cookie", CANARY, &array),
        one(batches, "cookie", CANARY, &format!("{{\"body\":\"{CANARY}")),
        one(&format!("/v1/dead-letters?{CANARY}={CANARY}"), "cookie", CANARY, ""),
        one(&format!("/v1/dead-letters?limit={CANARY}"), "cookie", CANARY, ""),
        one(&format!("/v1/dead-letters/{CANARY}"), "cookie", CANARY, ""),
        one(&format!("/v1/routes/{CANARY}/pause"), "cookie", CANARY, " "),
        one(&format!("/{CANARY}?{CANARY}"), "cookie", CANARY, ""),
    ]
}

/// What the operator's commands print, for people and for programs.
pub(crate) fn commands(folder: &Path, url: &str) -> Places {
    let header = format!("patient={CANARY}");
    let listed = command(folder, url, &["dead", "list"]);
    let id = listed.split(|byte| byte.is_ascii_whitespace()).find(|word| word.starts_with(b"dl_"));
    let id = std::str::from_utf8(id.expect("a dead letter is listed")).unwrap();
    let lines: [&[&str]; 14] = [
        &["queues"],
        &["queues", "--json"],
        &["dead", "list"],
        &["dead", "list", "--json"],
        &["dead", "show", id],
        &["dead", "show", id, "--json"],
        &["whoami"],
        &["whoami", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["check"],
        &["top"],
        &["send", "lab", "-", "--header", &header],
        &["queues", "--token", CANARY],
    ];
    let name = |line: &[&str]| line.join(" ").replace(id, "ID");
    lines.iter().map(|line| (name(line), command(folder, url, line))).collect()
}

/// Data and words together.
pub(crate) fn command(folder: &Path, url: &str, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::cargo_bin("bezoar").unwrap();
    command.args(arguments).current_dir(folder).write_stdin(CANARY);
    command.env("BEZOAR_URL", url).env("BEZOAR_TOKEN", SECRET).env("CANARY_KEY", CANARY);
    let output = command.env_remove("RUST_LOG").output().unwrap();
    assert!(output.status.code().is_some(), "{arguments:?}: {output:?}");
    [output.stdout, output.stderr].concat()
}
