//! `bezoar dead`

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Gateway, problem},
    run,
};

fn letter() -> Value {
    json!({
        "id": 17, "queue": "lab", "message_id": "m-1", "type": "lab.result", "correlation_id": "c-7",
        "reason": { "code": "exhausted", "text": "3 retries used up" },
        "error": { "kind": "transient", "code": "http-503" }, "attempts": 4, "replayed": 0,
        "body_bytes": 1204, "at": "2001-09-09T01:47:40Z",
    })
}

#[test]
fn dead_letters_are_listed_with_the_command_for_the_next_page() {
    let gateway = Gateway::answering(json!({ "dead_letters": [letter()], "next": 17 }));
    let ended =
        run(bezoar(&gateway)
            .args(["dead", "list", "--queue", "lab", "--limit", "1", "--after", "3"]));
    let (title, row) = ended.data.split_once('\n').unwrap();
    assert_eq!(
        title,
        "id  queue  type        correlation id  error     attempts  replayed      age  reason"
    );
    assert!(
        row.starts_with("17  lab    lab.result  c-7             http-503         4         0  "),
        "{row}"
    );
    assert!(row.ends_with(" d  3 retries used up\n"), "{row}");
    assert_eq!(
        ended.words,
        "there may be more: bezoar dead list --queue \"lab\" --limit 1 --after 17\n"
    );
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters?limit=1&queue=lab&after=3");
}

#[test]
fn no_dead_letters_is_good_news() {
    let gateway = Gateway::answering(json!({ "dead_letters": [], "next": null }));
    let ended = run(bezoar(&gateway).args(["dead", "list"]));
    assert_eq!(
        (ended.code, ended.data.as_str(), ended.words.as_str()),
        (0, "", "no dead letters\n")
    );
    let ended = run(bezoar(&gateway).args(["dead", "list", "--json"]));
    assert_eq!(ended.data, "{\"dead_letters\":[],\"next\":null}\n");
}

#[test]
fn a_limit_beyond_a_page_is_wrong_usage() {
    let gateway = Gateway::answering(json!({ "dead_letters": [], "next": null }));
    assert_eq!(run(bezoar(&gateway).args(["dead", "list", "--limit", "1001"])).code, 2);
    assert_eq!(run(bezoar(&gateway).args(["dead", "show", "x"])).code, 2);
    assert!(gateway.asked().is_empty());
}

#[test]
fn one_dead_letter_is_shown_with_its_attempts() {
    let mut whole = letter();
    whole["time"] = json!("2001-09-09T01:46:40Z");
    whole["history"] = json!([{
        "generation": 0, "number": 1, "try": 1, "at": "2001-09-09T01:46:41Z", "duration_ms": 250,
        "kind": "transient", "code": "http-503", "detail_bytes": 12,
    }]);
    let gateway = Gateway::answering(whole);
    let ended = run(bezoar(&gateway).args(["dead", "show", "17"]));
    for part in [
        "reason          3 retries used up (exhausted)",
        "body            1,204 bytes",
        "2001-09-09 01:46:41 UTC   + 1.0 s  attempt 1             250 ms  http-503 (transient)",
        "set aside: exhausted",
    ] {
        assert!(ended.data.contains(part), "{part:?} is missing in:\n{}", ended.data);
    }
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters/17");
    let json = run(bezoar(&gateway).args(["dead", "show", "17", "--json"]));
    assert!(json.data.starts_with('{') && json.data.ends_with("}\n"), "{json:?}");
}

#[test]
fn one_that_is_not_there_is_an_error() {
    let gateway = Gateway::start(|_, _| problem(404, "not-found", "there is no dead letter 9"));
    let ended = run(bezoar(&gateway).args(["dead", "show", "9"]));
    assert_eq!((ended.code, ended.words.as_str()), (1, "bezoar: there is no dead letter 9\n"));
}
