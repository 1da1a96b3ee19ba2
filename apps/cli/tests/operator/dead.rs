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
        "reason": "3 retries used up", "cause": "v1:0123456789abcdef", "state": "taken",
        "operation": 5, "edited_from": null,
        "error": { "kind": "transient", "code": "http-503" }, "attempts": 4, "replayed": 0,
        "body_bytes": 1204, "at": "2001-09-09T01:47:40Z",
    })
}

fn page(next: Value, count: u64, exact: bool) -> Value {
    json!({
        "dead_letters": [letter()], "next": next, "matching": { "count": count, "exact": exact },
    })
}

#[test]
fn dead_letters_are_listed_with_how_many_match_and_the_command_for_the_next_page() {
    let gateway = Gateway::answering(page(json!("1700000000000.17"), 12_345, true));
    let ended =
        run(bezoar(&gateway)
            .args(["dead", "list", "--queue", "lab", "--limit", "1", "--after", "30"]));
    let (title, row) = ended.data.split_once('\n').unwrap();
    assert_eq!(
        title,
        "id  queue  type        correlation id  error     attempts  replayed      age  state       reason"
    );
    assert!(
        row.starts_with("17  lab    lab.result  c-7             http-503         4         0  "),
        "{row}"
    );
    assert!(row.ends_with(" d  taken by 5  3 retries used up\n"), "{row}");
    assert_eq!(
        ended.words,
        "12,345 match\nnext page: bezoar dead list --queue lab --limit 1 --after 1700000000000.17\n"
    );
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters?limit=1&queue=lab&after=30");
}

#[test]
fn a_count_that_was_not_finished_says_so() {
    let gateway = Gateway::answering(page(json!(null), 50_000, false));
    let ended = run(bezoar(&gateway).args(["dead", "list"]));
    assert_eq!(ended.words, "at least 50,000 match\n");
}

#[test]
fn every_filter_reaches_the_gateway_and_the_next_page() {
    let gateway = Gateway::answering(page(json!("1700000000000.17"), 1, true));
    let flags = "--queue a/b --type t --kind not-found --code http-404 --cause v1:0123456789abcdef \
                 --correlation-id c --message-id m --since 2h --until 2026-11-14T09:30:00Z \
                 --min-attempts 3 --never-replayed --state open";
    let ended = run(bezoar(&gateway).args(["dead", "list"]).args(flags.split_whitespace()));
    let expected = "/v1/dead-letters?limit=100&queue=a%2Fb&type=t&kind=not%20found&code=http-404\
                    &cause=v1%3A0123456789abcdef&correlation_id=c&message_id=m&since=2h\
                    &until=2026-11-14T09%3A30%3A00Z&min_attempts=3&replayed=false&state=open";
    assert_eq!(gateway.asked()[0].target, expected);
    let flags = flags.replace("not-found", "'not found'");
    assert!(
        ended.words.contains(&format!("list {flags} --limit 100 --after 1700000000000.17")),
        "{ended:?}"
    );
}

#[test]
fn no_dead_letters_is_good_news() {
    let nothing = json!({
        "dead_letters": [], "next": null, "matching": { "count": 0, "exact": true },
    });
    let gateway = Gateway::answering(nothing.clone());
    let ended = run(bezoar(&gateway).args(["dead", "list"]));
    assert_eq!(
        (ended.code, ended.data.as_str(), ended.words.as_str()),
        (0, "", "no dead letters\n")
    );
    let ended = run(bezoar(&gateway).args(["dead", "list", "--queue", "lab"]));
    assert_eq!(ended.words, "no dead letters match\n");
    let ended = run(bezoar(&gateway).args(["dead", "list", "--json"]));
    assert_eq!(ended.data, format!("{nothing}\n"));
}

#[test]
fn a_limit_beyond_a_page_is_a_usage_error() {
    let gateway = Gateway::answering(json!({ "dead_letters": [], "next": null }));
    assert_eq!(run(bezoar(&gateway).args(["dead", "list", "--limit", "1001"])).code, 2);
    assert_eq!(run(bezoar(&gateway).args(["dead", "show", "x"])).code, 2);
    assert_eq!(run(bezoar(&gateway).args(["dead", "list", "--since", "yesterday"])).code, 2);
    assert!(gateway.asked().is_empty());
}

#[test]
fn one_dead_letter_is_shown_with_its_attempts() {
    let mut whole = letter();
    whole["reason_code"] = json!("exhausted");
    whole["lineage"] = json!([19]);
    whole["operations"] = json!([3, 5]);
    whole["earlier"] = json!([9, 12]);
    whole["time"] = json!("2001-09-09T01:46:40Z");
    whole["history"] = json!([{
        "generation": 0, "attempt": 1, "try": 1, "started_at": "2001-09-09T01:46:41Z", "duration_ms": 250,
        "kind": "transient", "code": "http-503", "detail_bytes": 12,
    }]);
    let gateway = Gateway::answering(whole);
    let ended = run(bezoar(&gateway).args(["dead", "show", "17"]));
    for part in [
        "reason          3 retries used up (exhausted)",
        "state           taken by 5",
        "cause           v1:0123456789abcdef",
        "included in     replay 3, 5",
        "failed before   as dead letter 9, 12",
        "edited from     –",
        "versions        dead letter 19",
        "body            1,204 bytes",
        "2001-09-09 01:46:41 UTC   + 1.0 s  attempt 1                 250 ms  http-503 (transient)",
        "dead-lettered: exhausted",
    ] {
        assert!(ended.data.contains(part), "{part:?} is missing in:\n{}", ended.data);
    }
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters/17");
    let json = run(bezoar(&gateway).args(["dead", "show", "17", "--json"]));
    assert!(json.data.starts_with('{') && json.data.ends_with("}\n"), "{json:?}");
}

#[test]
fn one_that_is_not_there_is_an_error() {
    let gateway = Gateway::start(|_, _| problem(404, "not-found", "unknown dead letter 9"));
    let ended = run(bezoar(&gateway).args(["dead", "show", "9"]));
    assert_eq!((ended.code, ended.words.as_str()), (1, "bezoar: unknown dead letter 9\n"));
}
