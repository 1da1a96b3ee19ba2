//! `bezoar dead`

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Gateway, problem},
    run,
};

fn letter() -> Value {
    json!({
        "id": "dl_e4295pe0", "queue": "lab", "message_id": "m-1", "type": "lab.result", "correlation_id": "c-7",
        "reason": "3 retries used up", "cause": "v1:0123456789abcdef", "state": "held",
        "operation": "op_y0ppfhjp", "edited_from": null,
        "error": { "kind": "transient", "code": "http-503" }, "attempts": 4, "replays": 0,
        "body_bytes": 1204, "dead_lettered_at": "2001-09-09T01:47:40Z",
    })
}

fn page(next: Value, count: u64, exact: bool) -> Value {
    json!({
        "items": [letter()], "next": next, "matching": { "count": count, "exact": exact },
    })
}

#[test]
fn dead_letters_are_listed_with_how_many_match_and_the_command_for_the_next_page() {
    let gateway = Gateway::answering(page(json!("1700000000000.dl_e4295pe0"), 12_345, true));
    let ended =
        run(bezoar(&gateway)
            .args(["dead", "list", "--queue", "lab", "--limit", "1", "--after", "30"]));
    let (title, row) = ended.data.split_once('\n').unwrap();
    assert_eq!(
        title,
        "id           queue  type        correlation id  error     attempts  replayed      age  state                reason"
    );
    assert!(
        row.starts_with(
            "dl_e4295pe0  lab    lab.result  c-7             http-503         4         0  "
        ),
        "{row}"
    );
    assert!(row.ends_with(" d  held by op_y0ppfhjp  3 retries used up\n"), "{row}");
    assert_eq!(
        ended.words,
        "12,345 dead letters match\nnext page: bezoar dead list --queue lab --limit 1 --after 1700000000000.dl_e4295pe0\n"
    );
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters?limit=1&queue=lab&after=30");
}

#[test]
fn a_count_that_was_not_finished_says_so() {
    let gateway = Gateway::answering(page(json!(null), 50_000, false));
    let ended = run(bezoar(&gateway).args(["dead", "list"]));
    assert_eq!(ended.words, "at least 50,000 dead letters match\n");
}

#[test]
fn every_filter_reaches_the_gateway_and_the_next_page() {
    let gateway = Gateway::answering(page(json!("1700000000000.dl_e4295pe0"), 1, true));
    let flags = "--queue a/b --type t --kind not-found --code http-404 --cause v1:0123456789abcdef \
                 --correlation-id c --message-id m --since 2h --until 2026-11-14T09:30:00Z \
                 --min-attempts 3 --never-replayed --state open";
    let ended = run(bezoar(&gateway).args(["dead", "list"]).args(flags.split_whitespace()));
    let expected = "/v1/dead-letters?limit=100&queue=a%2Fb&type=t&kind=not%20found&code=http-404\
                    &cause=v1%3A0123456789abcdef&correlation_id=c&message_id=m&since=2h\
                    &until=2026-11-14T09%3A30%3A00Z&min_attempts=3&replayed=false&state=open";
    assert_eq!(gateway.asked()[0].target, expected);
    assert!(
        ended
            .words
            .contains(&format!("list {flags} --limit 100 --after 1700000000000.dl_e4295pe0")),
        "{ended:?}"
    );
}

#[test]
fn an_id_of_another_kind_is_refused_with_the_command_for_it() {
    let gateway = Gateway::answering(json!({}));
    for (id, expected) in [
        ("op_209aaw0b", "use `bezoar dead replays op_209aaw0b`"),
        (
            "0198c0de-0000-7000-8000-000000000001",
            "bezoar dead list --message-id 0198c0de-0000-7000-8000-000000000001`",
        ),
    ] {
        let ended = run(bezoar(&gateway).args(["dead", "show", id]));
        assert_eq!(ended.code, 2);
        assert!(ended.words.contains(expected), "{ended:?}");
    }
    let ended = run(bezoar(&gateway).args(["dead", "show", "dl_7"]));
    assert!(!ended.words.contains("--message-id"), "{ended:?}");
    assert!(gateway.asked().is_empty());
}

#[test]
fn no_dead_letters_is_good_news() {
    let nothing = json!({
        "items": [], "next": null, "matching": { "count": 0, "exact": true },
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
    let gateway = Gateway::answering(json!({ "items": [], "next": null }));
    assert_eq!(run(bezoar(&gateway).args(["dead", "list", "--limit", "1001"])).code, 2);
    assert_eq!(run(bezoar(&gateway).args(["dead", "list", "--since", "yesterday"])).code, 2);
    assert!(gateway.asked().is_empty());
}

#[test]
fn a_mistyped_id_is_a_usage_error_that_says_what_one_looks_like() {
    let gateway = Gateway::answering(letter());
    let looks =
        "the id of a dead letter is dl_ and 8 or 13 letters and digits, such as dl_g4jmah4z";
    for id in ["x", "17", "-1", "dl_e4295peu", "y0ppfhjp"] {
        let ended = run(bezoar(&gateway).args(["dead", "show", "--", id]));
        assert_eq!((ended.code, ended.words.contains(looks)), (2, true), "{id}: {ended:?}");
    }
    for (command, id, kinds) in [
        ("show", "op_y0ppfhjp", "an operation, not of a dead letter"),
        ("replay", "op_y0ppfhjp", "an operation, not of a dead letter"),
        ("replays", "dl_e4295pe0", "a dead letter, not of an operation"),
    ] {
        let ended = run(bezoar(&gateway).args(["dead", command, id]));
        let words = format!("{id} is the id of {kinds}");
        assert_eq!((ended.code, ended.words.contains(&words)), (2, true), "{ended:?}");
    }
    assert!(gateway.asked().is_empty());
    assert_eq!(run(bezoar(&gateway).args(["dead", "show", "DL_E4295PEO"])).code, 0);
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters/dl_e4295pe0");
}

#[test]
fn one_dead_letter_is_shown_with_its_attempts() {
    let mut whole = letter();
    whole["reason_code"] = json!("exhausted");
    whole["lineage"] = json!(["dl_jcj4zbdg"]);
    whole["operations"] = json!(["op_77ncnddj", "op_y0ppfhjp"]);
    whole["earlier"] = json!(["dl_g4jmah4z", "dl_ddbhm0jv"]);
    whole["created_at"] = json!("2001-09-09T01:46:40Z");
    whole["history"] = json!([{
        "generation": 0, "attempt": 1, "try": 1, "started_at": "2001-09-09T01:46:41Z", "duration_ms": 250,
        "kind": "transient", "code": "http-503", "detail_bytes": 12,
    }]);
    let gateway = Gateway::answering(whole);
    let ended = run(bezoar(&gateway).args(["dead", "show", "dl_e4295pe0"]));
    for part in [
        "reason          3 retries used up (exhausted)",
        "state           held by op_y0ppfhjp",
        "cause           v1:0123456789abcdef",
        "included in     replay op_77ncnddj, op_y0ppfhjp",
        "failed before   as dead letter dl_g4jmah4z, dl_ddbhm0jv",
        "edited from     –",
        "versions        dead letter dl_jcj4zbdg",
        "body            1,204 bytes",
        "2001-09-09 01:46:41 UTC   + 1.0 s  attempt 1                 250 ms  http-503 (transient)",
        "dead-lettered: exhausted",
    ] {
        assert!(ended.data.contains(part), "{part:?} is missing in:\n{}", ended.data);
    }
    assert_eq!(gateway.asked()[0].target, "/v1/dead-letters/dl_e4295pe0");
    let json = run(bezoar(&gateway).args(["dead", "show", "dl_e4295pe0", "--json"]));
    assert!(json.data.starts_with('{') && json.data.ends_with("}\n"), "{json:?}");
}

#[test]
fn one_that_is_not_there_is_an_error() {
    let gateway =
        Gateway::start(|_, _| problem(404, "not-found", "unknown dead letter dl_thxemss4"));
    let ended = run(bezoar(&gateway).args(["dead", "show", "dl_thxemss4"]));
    assert_eq!(
        (ended.code, ended.words.as_str()),
        (1, "bezoar: unknown dead letter dl_thxemss4\n")
    );
}
