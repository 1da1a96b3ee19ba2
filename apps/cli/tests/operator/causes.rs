//! `bezoar dead causes` and `bezoar dead ack`

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Gateway, problem},
    run,
};

const CAUSE: &str = "v1:0123456789abcdef";

fn cause(state: &str) -> Value {
    json!({
        "id": CAUSE, "title": "http-503 (transient) of lab.result in lab", "queue": "lab",
        "type": "lab.result", "kind": "transient", "code": "http-503", "count": 1234, "count_since_first_seen": 2000,
        "added_this_hour": 30, "added_last_hour": 4, "first_seen_at": "2001-09-09T01:46:40Z",
        "last_seen_at": "2001-09-09T01:46:40Z", "samples": ["dl_e4295pe0"], "state": state, "note": null,
    })
}

#[test]
fn causes_are_listed_with_what_they_are() {
    let gateway = Gateway::answering(json!({ "items": [cause("open")] }));
    let ended = run(bezoar(&gateway).args(["dead", "causes", "--queue", "lab", "--limit", "7"]));
    let row = ended.data.lines().nth(1).unwrap();
    assert!(row.starts_with("1,234         30          4  "), "{row}");
    assert!(row.ends_with(&format!("open   {CAUSE}  http-503 (transient) of lab.result in lab")));
    assert_eq!(gateway.asked()[0].target, "/v1/causes?limit=7&queue=lab");
    let ended = run(bezoar(&gateway).args(["dead", "causes", "--json"]));
    assert!(ended.data.starts_with(r#"{"items":["#), "{ended:?}");
    let gateway = Gateway::answering(json!({ "items": [] }));
    let ended = run(bezoar(&gateway).args(["dead", "causes"]));
    assert_eq!((ended.code, ended.words.as_str()), (0, "no dead letters\n"));
}

#[test]
fn a_cause_is_acknowledged_resolved_and_opened_again() {
    for (flag, state) in
        [(None, "acknowledged"), (Some("--resolved"), "resolved"), (Some("--reopen"), "open")]
    {
        let gateway = Gateway::answering(cause(state));
        let arguments = ["dead", "ack", CAUSE, "--note", "ticket 7"];
        let ended = run(bezoar(&gateway).args(arguments).args(flag));
        let expected = format!("{CAUSE} is {state}: http-503 (transient) of lab.result in lab\n");
        assert_eq!((ended.code, ended.words), (0, expected));
        let asked = &gateway.asked()[0];
        assert_eq!(asked.target, "/v1/causes/v1%3A0123456789abcdef");
        assert_eq!(asked.json(), json!({ "state": state, "note": "ticket 7" }));
    }
}

#[test]
fn an_invalid_cause_is_refused_here_and_an_unknown_one_by_the_gateway() {
    let gateway = Gateway::start(|_, _| problem(404, "not-found", "unknown cause v1:…"));
    assert_eq!(run(bezoar(&gateway).args(["dead", "ack", "7"])).code, 2);
    let both = ["dead", "ack", CAUSE, "--resolved", "--reopen"];
    assert_eq!(run(bezoar(&gateway).args(both)).code, 2);
    assert!(gateway.asked().is_empty());
    let ended = run(bezoar(&gateway).args(["dead", "ack", CAUSE]));
    assert_eq!((ended.code, ended.words.as_str()), (1, "bezoar: unknown cause v1:…\n"));
}
