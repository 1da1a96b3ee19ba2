//! `bezoar dead reveal`

use std::{fs, os::unix::fs::PermissionsExt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Gateway, problem},
    run, run_revealing,
    terminal::Terminal,
};

fn revealed(body: &[u8]) -> Value {
    json!({ "id": "dl_e4295pe0", "content_type": "text/plain", "body_base64": STANDARD.encode(body) })
}

#[test]
fn the_body_comes_as_it_is_after_a_reason_was_given() {
    let gateway = Gateway::answering(revealed(b"CANARY \x1b without an end"));
    let arguments = ["dead", "reveal", "dl_e4295pe0", "--reason", "ticket 7"];
    let ended = run_revealing(bezoar(&gateway).args(arguments));
    assert_eq!((ended.code, ended.words.as_str()), (0, ""));
    assert_eq!(ended.data, "CANARY \u{1b} without an end");
    let asked = &gateway.asked()[0];
    assert_eq!(asked.target, "/v1/dead-letters/dl_e4295pe0/reveal");
    assert_eq!(asked.json(), json!({ "reason": "ticket 7", "what": ["body"] }));
}

#[test]
fn without_a_reason_nothing_is_asked_for() {
    let gateway = Gateway::answering(revealed(b"CANARY"));
    for arguments in [
        vec!["dl_e4295pe0"],
        vec!["dl_e4295pe0", "--reason", " "],
        vec!["dl_e4295pe0", "--reason", "a\nb"],
    ] {
        assert_eq!(run(bezoar(&gateway).args(["dead", "reveal"]).args(arguments)).code, 2);
    }
    assert!(gateway.asked().is_empty());
}

#[test]
fn a_file_is_private_and_not_replaced_unless_told() {
    let gateway = Gateway::answering(revealed(b"CANARY\0"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let command = || {
        let mut command = bezoar(&gateway);
        command.args(["dead", "reveal", "dl_e4295pe0", "--reason", "r", "--output"]).arg(&file);
        command
    };
    let ended = run(&mut command());
    assert_eq!((ended.code, ended.data.as_str(), ended.words.as_str()), (0, "", "wrote 7 bytes\n"));
    assert_eq!(fs::read(&file).unwrap(), b"CANARY\0");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let ended = run(&mut command());
    assert_eq!(ended.code, 1);
    assert!(
        ended.words.contains("exists; choose another name, or overwrite it with --force"),
        "{ended:?}"
    );
    assert_eq!(gateway.asked().len(), 1, "nothing is revealed that could not be written");

    fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(run(command().arg("--force")).code, 0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn headers_and_details_are_written_for_people_or_as_json() {
    let answer =
        json!({ "id": "dl_e4295pe0", "headers": { "ward": "CANARY" }, "details": ["no CANARY"] });
    let gateway = Gateway::answering(answer.clone());
    let arguments = ["dead", "reveal", "dl_e4295pe0", "--reason", "r", "--headers", "--details"];
    let ended = run_revealing(bezoar(&gateway).args(arguments));
    let expected = "1 header\n  ward: CANARY\n1 error text, oldest first\n  1. no CANARY\n";
    assert_eq!((ended.code, ended.data.as_str()), (0, expected));
    assert_eq!(gateway.asked()[0].json()["what"], json!(["headers", "details"]));
    let ended = run_revealing(bezoar(&gateway).args(arguments).arg("--json"));
    assert_eq!(ended.data, format!("{answer}\n"));
}

#[test]
fn a_large_body_is_read_whole() {
    let body = vec![b'x'; 30 * 1024 * 1024];
    let gateway = Gateway::answering(revealed(&body));
    let ended = run(bezoar(&gateway).args(["dead", "reveal", "dl_e4295pe0", "--reason", "r"]));
    assert_eq!((ended.code, ended.data.len()), (0, body.len()));
}

#[test]
fn a_refusal_leaves_no_file() {
    let gateway = Gateway::start(|_, _| problem(403, "forbidden", "this needs the role operator"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let arguments = ["dead", "reveal", "dl_e4295pe0", "--reason", "r", "--output"];
    let ended = run(bezoar(&gateway).args(arguments).arg(&file));
    assert_eq!((ended.code, ended.words.as_str()), (1, "bezoar: this needs the role operator\n"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_terminal_shows_text_and_nothing_that_would_steer_it() {
    let gateway = Gateway::answering(revealed(b"plain text"));
    let (code, screen) = Terminal::start(&gateway, "dead reveal dl_e4295pe0 --reason r").end();
    assert_eq!((code, screen.as_str()), (0, "plain text\r\n"));
    let gateway = Gateway::answering(revealed(b"CANARY\x1b[2J"));
    let (code, screen) = Terminal::start(&gateway, "dead reveal dl_e4295pe0 --reason r").end();
    assert_eq!(code, 1);
    assert!(screen.contains("the body is binary (10 bytes)"), "{screen:?}");
    assert!(!screen.contains("CANARY"), "{screen:?}");
}
