//! `bezoar dead replay`

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Answer, Asked, Gateway, problem},
    run,
    terminal::Terminal,
};

/// A replay of ten messages.
pub(crate) fn replay(state: &str, [done, completed, failed]: [u64; 3]) -> Value {
    json!({
        "id": "op_4d7yb24c", "state": state, "kind": "replay", "actor": "ada", "reason": "mended",
        "planned_at": "2001-09-09T01:46:40Z", "ended_at": null, "stop_reason": null,
        "total": 10, "refused": 2, "processed": done,
        "queues": [{ "queue": "lab", "count": 8 }, { "queue": "x-ray", "count": 2 }],
        "completed": completed, "failed": failed, "in_flight": done - completed - failed,
        "canary": 3, "rate": null, "stop_after": null, "new_ids": false,
    })
}

pub(crate) fn failures() -> Value {
    let item = |place: usize, again: Value, cause: Value| {
        let letter = ["dl_g4jmah4z", "dl_ddbhm0jv"][place - 1];
        json!({
            "position": place, "dead_letter": letter, "message_id": format!("m-{place}"), "queue": "lab",
            "state": if again.is_null() { "completed" } else { "failed_again" },
            "new_dead_letter": again, "cause": cause,
        })
    };
    let messages = [
        item(1, json!(null), json!(null)),
        item(2, json!("dl_wfxggda2"), json!("v1:0123456789abcdef")),
    ];
    json!({ "items": messages, "next": null })
}

/// Plans, starts, sends its canary, and ends as it is told.
fn gateway(end: Value) -> Gateway {
    let looked = AtomicUsize::new(0);
    Gateway::start(move |_, asked: &Asked| {
        let body = match (asked.method.as_str(), asked.target.as_str()) {
            ("POST", "/v1/replays") if asked.json()["plan"] == json!(true) => {
                replay("planned", [0, 0, 0])
            }
            ("POST", "/v1/replays") => replay("running", [0, 0, 0]),
            ("POST", _) if asked.json()["command"] == json!("cancel") => {
                replay("cancelled", [0, 0, 0])
            }
            ("POST", _) => replay("running", [0, 0, 0]),
            (_, "/v1/replays/op_4d7yb24c") => match looked.fetch_add(1, Ordering::SeqCst) {
                0 => replay("running", [3, 1, 0]),
                1 => replay("running", [9, 5, 0]),
                _ => end.clone(),
            },
            _ => failures(),
        };
        Answer::Json(200, body)
    })
}

const BY_ID: [&str; 6] = ["dead", "replay", "dl_vka5dag5", "dl_e4295pe0", "--reason", "mended"];

#[test]
fn named_dead_letters_are_replayed_and_followed_to_the_end() {
    let gateway = gateway(replay("ended", [10, 10, 0]));
    let more =
        ["--canary", "3", "--rate", "20/s", "--stop-after", "2", "--new-ids", "--expect", "2"];
    let ended = run(bezoar(&gateway).args(BY_ID).args(more));
    let words = "replay op_4d7yb24c ended: 10 of 10 messages sent, 10 completed, 0 failed again, 0 in flight\n";
    assert_eq!((ended.code, ended.data.as_str(), ended.words.as_str()), (0, "", words));
    let expected = json!({
        "ids": ["dl_vka5dag5", "dl_e4295pe0"], "reason": "mended", "canary": 3, "rate": 20.0, "stop_after": 2,
        "new_ids": true, "expect": 2, "plan": false, "skip_held": false,
    });
    assert_eq!(gateway.asked()[0].json(), expected);
}

#[test]
fn messages_that_failed_again_are_reported_by_cause_as_a_failure() {
    let gateway = gateway(replay("ended", [10, 9, 1]));
    let ended = run(bezoar(&gateway).args(BY_ID).arg("--json"));
    assert_eq!(ended.code, 1);
    assert!(
        ended.words.contains("1 × v1:0123456789abcdef, for example dead letter dl_wfxggda2"),
        "{ended:?}"
    );
    assert!(ended.words.ends_with("bezoar: 1 message failed again\n"), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.data).unwrap();
    assert_eq!(told, replay("ended", [10, 9, 1]));
}

#[test]
fn one_that_was_stopped_says_why_and_what_can_be_done() {
    let mut stopped = replay("stopped", [3, 2, 1]);
    stopped["stop_reason"] = json!("a canary message failed");
    let ended = run(bezoar(&gateway(stopped)).args(BY_ID));
    assert_eq!(ended.code, 1);
    assert!(
        ended.words.contains("replay op_4d7yb24c stopped because a canary message failed: 3 of 10"),
        "{ended:?}"
    );
    assert!(
        ended.words.contains("bezoar dead replays op_4d7yb24c --resume --reason TEXT"),
        "{ended:?}"
    );
}

#[test]
fn without_a_terminal_a_filter_needs_a_plan_or_a_yes() {
    let gateway = gateway(replay("ended", [10, 10, 0]));
    let filter = ["dead", "replay", "--queue", "lab", "--reason", "mended"];
    let ended = run(bezoar(&gateway).args(filter));
    assert_eq!(ended.code, 1);
    assert!(
        ended.words.contains(
            "pass --yes, or pass --plan to hold the selected dead letters and review them first"
        ),
        "{ended:?}"
    );
    assert!(gateway.asked().is_empty());

    let ended = run(bezoar(&gateway).args(filter).args(["--yes", "--no-wait"]));
    assert_eq!((ended.code, ended.data.as_str()), (0, "op_4d7yb24c\n"));
    assert!(ended.words.contains("bezoar dead replays op_4d7yb24c"), "{ended:?}");
    let asked = gateway.asked()[0].json();
    assert_eq!((&asked["filter"], &asked["plan"]), (&json!({ "queue": "lab" }), &json!(false)));
}

#[test]
fn a_canary_that_covers_the_whole_selection_is_warned_of() {
    let warning = "warning: the canary covers the whole selection";
    for (canary, warns) in [(3, false), (9, false), (10, true), (99, true)] {
        let mut ended = replay("ended", [10, 10, 0]);
        ended["canary"] = json!(canary);
        let gateway = Gateway::answering(ended);
        let ended = run(bezoar(&gateway).args(BY_ID));
        assert_eq!((ended.code, ended.words.contains(warning)), (0, warns), "{canary} {ended:?}");
    }
}

#[test]
fn a_plan_is_shown_and_not_started() {
    let gateway = gateway(replay("ended", [10, 10, 0]));
    let ended = run(bezoar(&gateway).args(["dead", "replay", "--all", "--reason", "r", "--plan"]));
    assert_eq!((ended.code, ended.data.as_str()), (0, "op_4d7yb24c\n"));
    for part in [
        "planned replay op_4d7yb24c: 10 messages",
        "  8 to lab\n  2 to x-ray\n2 dead letters are not included",
        "message ids: unchanged",
        "start it with: bezoar dead replays op_4d7yb24c --start --reason TEXT",
    ] {
        assert!(ended.words.contains(part), "{part:?} is missing in:\n{}", ended.words);
    }
    assert_eq!((gateway.asked().len(), &gateway.asked()[0].json()["filter"]), (1, &json!({})));
}

/// A replay of ten messages that left out three which others hold, and one for another reason.
fn with_held(state: &str, counts: [u64; 3]) -> Value {
    let mut shown = replay(state, counts);
    shown["refused"] = json!(4);
    shown["held"] = json!([{ "operation": "op_y0ppfhjp", "count": 1 }, { "operation": "op_77ncnddj", "count": 2 }]);
    shown
}

const HOLDERS: &str = "1 dead letter is not included: held by operation op_y0ppfhjp\n\
                       2 dead letters are not included: held by operation op_77ncnddj\n";

#[test]
fn who_holds_what_was_left_out_is_said_before_it_starts() {
    let gateway = Gateway::start(|_, asked: &Asked| {
        let state = match asked.target.as_str() {
            "/v1/replays" if asked.json()["plan"] == json!(true) => "planned",
            "/v1/replays" => "running",
            _ => return Answer::Json(200, with_held("ended", [10, 10, 0])),
        };
        Answer::Json(200, with_held(state, [0, 0, 0]))
    });
    let ended = run(bezoar(&gateway).args(BY_ID).arg("--skip-held"));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.words.starts_with(HOLDERS), "{ended:?}");
    assert_eq!(gateway.asked()[0].json()["skip_held"], json!(true));

    let plan = ["dead", "replay", "--all", "--reason", "r", "--plan", "--skip-held"];
    let ended = run(bezoar(&gateway).args(plan));
    let other = "1 dead letter is not included: replaced by an edited version";
    assert!(ended.words.contains(&format!("{HOLDERS}{other}")), "{ended:?}");
}

#[test]
fn a_refusal_says_who_holds_them_and_how_to_leave_them_out() {
    for (held, expected) in [
        (
            json!([{ "operation": "op_y0ppfhjp", "count": 1 }]),
            "bezoar: 1 selected dead letter is held by op_y0ppfhjp; finish it with \
             `bezoar dead replays op_y0ppfhjp --resume --reason TEXT` or --cancel, or pass --skip-held\n",
        ),
        (
            json!([{ "operation": "op_y0ppfhjp", "count": 1 }, { "operation": "op_77ncnddj", "count": 2 }]),
            "bezoar: 3 selected dead letters are held by op_y0ppfhjp (1), op_77ncnddj (2); finish each with \
             `bezoar dead replays ID --resume --reason TEXT` or --cancel, or pass --skip-held\n",
        ),
    ] {
        let gateway = Gateway::start(move |_, _| {
            let kind = "urn:bezoar:problem:held";
            Answer::Json(409, json!({ "type": kind, "detail": "some are held", "held": held }))
        });
        let ended = run(bezoar(&gateway).args(BY_ID));
        assert_eq!((ended.code, ended.words.as_str()), (1, expected));
    }
}

#[test]
fn nothing_is_replayed_if_others_hold_everything() {
    let gateway = Gateway::start(|_, _| {
        let mut empty = with_held("planned", [0, 0, 0]);
        (empty["total"], empty["refused"]) = (json!(0), json!(3));
        Answer::Json(200, empty)
    });
    let ended = run(bezoar(&gateway).args(BY_ID).arg("--skip-held"));
    let words = "bezoar: nothing was replayed; 1 dead letter is not included: held by operation op_y0ppfhjp; \
                 2 dead letters are not included: held by operation op_77ncnddj\n";
    assert_eq!((ended.code, ended.words.as_str()), (1, words));
}

#[test]
fn no_choice_or_two_choices_are_a_usage_error() {
    let gateway = gateway(json!(null));
    for which in [
        vec![],
        vec!["dl_75mk4vdk", "--queue", "q"],
        vec!["--all", "--queue", "q"],
        vec!["dl_75mk4vdk", "--all"],
    ] {
        let ended = run(bezoar(&gateway).args(["dead", "replay", "--reason", "r"]).args(&which));
        assert_eq!(ended.code, 2, "{which:?} {ended:?}");
    }
    assert_eq!(
        run(bezoar(&gateway).args(["dead", "replay", "dl_75mk4vdk"])).code,
        2,
        "without a reason"
    );
    assert!(gateway.asked().is_empty());
}

#[test]
fn a_plan_of_nothing_is_not_left_behind() {
    let gateway = Gateway::start(|_, _| {
        let mut empty = replay("planned", [0, 0, 0]);
        (empty["total"], empty["refused"]) = (json!(0), json!(0));
        Answer::Json(200, empty)
    });
    let arguments = ["dead", "replay", "--queue", "q", "--reason", "r", "--yes"];
    let ended = run(bezoar(&gateway).args(arguments));
    let words = "no dead letters match; nothing was replayed\n";
    assert_eq!((ended.code, ended.words.as_str()), (0, words));
    assert_eq!(gateway.asked()[1].json()["command"], json!("cancel"));
}

#[test]
fn an_unexpected_number_and_a_lost_reply_are_reported() {
    let detail = "found 12 dead letters, expected 2; check the selection again";
    let gateway = Gateway::start(move |_, _| problem(409, "unexpected", detail));
    let ended = run(bezoar(&gateway).args(BY_ID).args(["--expect", "2"]));
    assert_eq!((ended.code, ended.words), (1, format!("bezoar: {detail}\n")));
    let gateway = Gateway::start(|_, _| Answer::Hangup);
    let ended = run(bezoar(&gateway).args(BY_ID).args(["--retry-for", "100ms"]));
    assert!(ended.words.contains("the operation may have started"), "{ended:?}");
}

#[test]
fn a_request_whose_answer_is_lost_is_repeated_with_the_same_key() {
    let gateway = Gateway::start(|number, _| match number {
        0 => Answer::Hangup,
        1 => Answer::Busy,
        _ => Answer::Json(202, replay("ended", [10, 10, 0])),
    });
    let ended = run(bezoar(&gateway).args(BY_ID).args(["--no-wait"]));
    assert_eq!(ended.code, 0, "{ended:?}");
    let keys: Vec<_> =
        gateway.asked().iter().map(|asked| asked.header("idempotency-key")).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn at_a_terminal_the_plan_is_shown_and_started_after_a_yes() {
    let gateway = gateway(replay("ended", [10, 10, 0]));
    let mut terminal =
        Terminal::start(&gateway, "dead replay --cause v1:0123456789abcdef --reason r");
    terminal.wait_for("Replay 10 messages? [y/N]");
    terminal.press("y\n");
    terminal.wait_for("canary of 3: 3 of 10 messages sent");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen:?}");
    assert!(
        screen.contains("8 to lab") && screen.contains("replay op_4d7yb24c ended"),
        "{screen:?}"
    );
    let asked = gateway.asked();
    assert_eq!(asked[0].json()["plan"], json!(true));
    assert_eq!(asked[1].target, "/v1/replays/op_4d7yb24c");
    assert_eq!(asked[1].json(), json!({ "command": "run", "reason": "r" }));
}

#[test]
fn at_a_terminal_anything_but_yes_cancels_the_plan() {
    for keys in ["n\n", "\n", "\u{3}", "\u{4}"] {
        let gateway = gateway(json!(null));
        let mut terminal = Terminal::start(&gateway, "dead replay --all --reason r");
        terminal.wait_for("[y/N]");
        terminal.press(keys);
        let (code, screen) = terminal.end();
        assert_eq!(code, 1, "{screen:?}");
        assert!(screen.contains("nothing was replayed"), "{screen:?}");
        assert_eq!(gateway.asked()[1].json()["command"], json!("cancel"));
    }
}

#[test]
fn ctrl_c_leaves_it_running_and_says_how_to_come_back() {
    let gateway = gateway(replay("running", [9, 5, 0]));
    let mut terminal = Terminal::start(&gateway, "dead replay dl_vka5dag5 dl_e4295pe0 --reason r");
    terminal.wait_for("9 of 10 messages sent");
    terminal.press("\u{3}");
    let (code, screen) = terminal.end();
    assert_eq!(code, 1);
    for part in [
        "replay op_4d7yb24c continues in the background",
        "bezoar dead replays op_4d7yb24c --pause",
        "--cancel --reason TEXT",
    ] {
        assert!(screen.contains(part), "{part:?} is missing in {screen:?}");
    }
    assert!(
        gateway.asked().iter().all(|asked| asked.method == "GET" || asked.target == "/v1/replays")
    );
}

#[test]
fn a_gateway_that_is_away_for_a_moment_is_waited_for() {
    let gateway = Gateway::start(|before, _| match before {
        0 => Answer::Json(202, replay("running", [0, 0, 0])),
        1 => Answer::Hangup,
        2 => Answer::Busy,
        _ => Answer::Json(200, replay("ended", [10, 10, 0])),
    });
    let ended = run(bezoar(&gateway).args(BY_ID));
    assert_eq!(ended.code, 0, "{ended:?}");
}
