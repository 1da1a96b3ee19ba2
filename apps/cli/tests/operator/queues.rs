//! `bezoar queues`

use serde_json::{Value, json};

use crate::{bezoar, fake::Gateway, run};

fn queues() -> Value {
    json!([
        { "queue": "default", "transport": "sqlite", "ready": 0, "delayed": 0, "in_flight": 0, "dead": 0,
          "oldest_ready_seconds": null, "oldest_dead_seconds": null, "route": null },
        { "queue": "lab", "transport": "sqlite", "ready": 1234, "delayed": null, "in_flight": 16, "dead": 7,
          "oldest_ready_seconds": 200.5, "oldest_dead_seconds": 7300.0,
          "route": { "name": "results", "to": "http://localhost:3000/results", "paused": null,
                     "breaker": "open", "per_second": 12.46 } },
        { "queue": "x-ray", "transport": "sqlite", "ready": 3, "delayed": 1, "in_flight": 0, "dead": null,
          "oldest_ready_seconds": null, "oldest_dead_seconds": null,
          "route": { "name": "x-ray", "to": "http://localhost:3000/x", "paused": "paused by an operator",
                     "breaker": "closed", "per_second": 0.0 } },
    ])
}

#[test]
fn queues_are_shown_in_a_table_and_what_is_not_known_is_not_0() {
    let gateway = Gateway::answering(queues());
    let ended = run(bezoar(&gateway).arg("queues"));
    let expected = "\
queue    ready  delayed  in flight  dead  oldest ready  oldest dead  per second  route                                    state
default      0        0          0     0             –            –           –  –                                        no route
lab      1,234        ?         16     7           3 m          2 h        12.5  results → http://localhost:3000/results  breaker open
x-ray        3        1          0     ?             ?            ?           0  x-ray → http://localhost:3000/x          paused by an operator
";
    assert_eq!(ended.data, expected);
    assert_eq!((ended.code, ended.words.as_str()), (0, ""));
    let asked = &gateway.asked()[0];
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/v1/queues"));
}

#[test]
fn json_is_the_gateways_own() {
    let gateway = Gateway::answering(queues());
    let ended = run(bezoar(&gateway).args(["queues", "--json"]));
    assert_eq!(ended.data, format!("{}\n", queues()));
}

#[test]
fn without_queues_there_is_only_a_message() {
    let gateway = Gateway::answering(json!([]));
    let ended = run(bezoar(&gateway).arg("queues"));
    assert!(ended.words.contains("no queues"), "{ended:?}");
    assert_eq!(ended.code, 0);
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let gateway = Gateway::answering(queues());
    let program = assert_cmd::cargo::cargo_bin("bezoar");
    let script = format!(
        "timeout 20 '{}' queues --watch --json --url {} | head -n 1",
        program.display(),
        gateway.url()
    );
    let ended = run(assert_cmd::Command::new("bash").args(["-o", "pipefail", "-c", &script]));
    assert_eq!((ended.code, ended.words.as_str()), (0, ""), "{ended:?}");
    assert_eq!(ended.data, format!("{}\n", queues()));
}

#[test]
fn names_cannot_steer_a_terminal() {
    let gateway = Gateway::answering(json!([{ "queue": "a\u{1b}[2J\u{9b}", "ready": 1 }]));
    let ended = run(bezoar(&gateway).arg("queues"));
    assert!(ended.data.contains("a\u{fffd}[2J\u{fffd}"), "{ended:?}");
}
