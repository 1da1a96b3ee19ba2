//! `bezoar dead replays`

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Answer, Gateway, problem},
    replay::{failures, replay},
    run,
};

fn discard() -> Value {
    json!({
        "id": "op_p560nmcj", "state": "ended", "kind": "discard", "actor": "eve", "reason": "test data",
        "planned_at": "2001-09-09T01:46:40Z", "ended_at": null, "stop_reason": null,
        "total": 4, "refused": 0, "processed": 4, "queues": [{ "queue": "lab", "count": 4 }],
    })
}

#[test]
fn all_are_listed() {
    let gateway = Gateway::start(|_, asked| {
        let is_discard = asked.target == "/v1/discards";
        let one = if is_discard { discard() } else { replay("stopped", [3, 2, 1]) };
        Answer::Json(200, json!({ "items": [one] }))
    });
    let ended = run(bezoar(&gateway).args(["dead", "replays"]));
    let lines: Vec<_> = ended.data.lines().collect();
    let start = "id           kind     state    messages  done  completed  failed again";
    assert!(lines[0].starts_with(start), "{ended:?}");
    assert!(
        lines[1]
            .starts_with("op_4d7yb24c  replay   stopped        10     3          2             1"),
        "{ended:?}"
    );
    assert!(
        lines[2]
            .starts_with("op_p560nmcj  discard  ended           4     4          –             –"),
        "{ended:?}"
    );
    let ended = run(bezoar(&gateway).args(["dead", "replays", "--json"]));
    assert!(ended.data.starts_with(r#"{"items":["#), "{ended:?}");
    let gateway = Gateway::answering(json!({ "items": [] }));
    let ended = run(bezoar(&gateway).args(["dead", "replays"]));
    assert_eq!(ended.words, "no replays or discards yet\n");
}

#[test]
fn one_is_shown_with_why_messages_failed_again() {
    let gateway = Gateway::start(|_, asked| {
        let is_one = asked.target == "/v1/replays/op_4d7yb24c";
        let mut shown = replay("running", [9, 5, 1]);
        shown["held"] = json!([{ "operation": "op_y0ppfhjp", "count": 1 }, { "operation": "op_77ncnddj", "count": 1 }]);
        Answer::Json(200, if is_one { shown } else { failures() })
    });
    let ended = run(bezoar(&gateway).args(["dead", "replays", "op_4d7yb24c"]));
    for part in [
        "replay        op_4d7yb24c",
        "planned       2001-09-09 01:46:40 UTC by ada",
        "queues        lab (8), x-ray (2)",
        "9 of 10 messages sent, 5 completed, 1 failed again, 3 in flight",
        "not included  2 (1 held by operation op_y0ppfhjp, 1 held by operation op_77ncnddj)",
        "ids           unchanged",
        "1 × v1:0123456789abcdef, for example dead letter dl_wfxggda2",
    ] {
        assert!(ended.data.contains(part), "{part:?} is missing in:\n{}", ended.data);
    }
}

#[test]
fn every_message_is_shown_page_by_page() {
    let gateway = Gateway::start(|_, asked| {
        let mut page = failures();
        if asked.target.ends_with("after=0") {
            page["next"] = json!("2");
        }
        Answer::Json(200, page)
    });
    let ended =
        run(bezoar(&gateway).args(["dead", "replays", "op_4d7yb24c", "--messages", "--json"]));
    let lines: Vec<Value> =
        ended.data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ended.code, lines.len()), (0, 4));
    assert_eq!(lines[1], failures()["items"][1]);
    let targets: Vec<_> = gateway.asked().into_iter().map(|asked| asked.target).collect();
    assert_eq!(
        targets,
        ["/v1/replays/op_4d7yb24c/messages?after=0", "/v1/replays/op_4d7yb24c/messages?after=2"]
    );
    let ended = run(bezoar(&gateway).args(["dead", "replays", "op_4d7yb24c", "--messages"]));
    assert!(
        ended.data.contains("m-2      failed again  dl_wfxggda2      v1:0123456789abcdef"),
        "{ended:?}"
    );
}

#[test]
fn commands_carry_a_reason() {
    for (flag, order, state, words) in [
        (
            "--start",
            "run",
            "running",
            "replay op_4d7yb24c is running; follow with `bezoar dead replays op_4d7yb24c --wait`\n",
        ),
        (
            "--resume",
            "run",
            "running",
            "replay op_4d7yb24c is running; follow with `bezoar dead replays op_4d7yb24c --wait`\n",
        ),
        ("--pause", "pause", "paused", "replay op_4d7yb24c is paused\n"),
        (
            "--cancel",
            "cancel",
            "cancelled",
            "replay op_4d7yb24c is cancelled; the remaining dead letters are released\n",
        ),
    ] {
        let gateway = Gateway::answering(replay(state, [9, 5, 1]));
        let ended =
            run(bezoar(&gateway).args(["dead", "replays", "op_4d7yb24c", flag, "--reason", "r"]));
        assert_eq!((ended.code, ended.words.as_str()), (0, words));
        assert_eq!(gateway.asked()[0].json(), json!({ "command": order, "reason": "r" }));
        assert_eq!(run(bezoar(&gateway).args(["dead", "replays", "op_4d7yb24c", flag])).code, 2);
        assert_eq!(run(bezoar(&gateway).args(["dead", "replays", flag, "--reason", "r"])).code, 2);
    }
}

#[test]
fn a_plan_is_started_and_followed() {
    let gateway = Gateway::start(|_, asked| {
        let state = if asked.method == "POST" { "running" } else { "ended" };
        Answer::Json(200, replay(state, [10, 10, 0]))
    });
    let arguments = ["dead", "replays", "op_4d7yb24c", "--start", "--reason", "r", "--wait"];
    let ended = run(bezoar(&gateway).args(arguments));
    assert_eq!(ended.code, 0);
    assert!(ended.words.starts_with("replay op_4d7yb24c ended"), "{ended:?}");
}

#[test]
fn one_that_is_not_there_or_has_ended_is_an_error() {
    let gateway =
        Gateway::start(|_, _| problem(404, "not-found", "unknown replay or discard op_h7y441e7"));
    let ended = run(bezoar(&gateway).args(["dead", "replays", "op_h7y441e7"]));
    let words = "bezoar: unknown replay or discard op_h7y441e7\n";
    assert_eq!((ended.code, ended.words.as_str()), (1, words));
}
