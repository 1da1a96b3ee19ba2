//! `bezoar dead discard`

use serde_json::{Value, json};

use crate::{
    bezoar,
    fake::{Answer, Asked, Gateway, problem},
    run,
    terminal::Terminal,
};

fn discard(state: &str, done: u64) -> Value {
    json!({
        "id": "op_p560nmcj", "state": state, "kind": "discard", "actor": "eve", "reason": "test data",
        "planned_at": "2001-09-09T01:46:40Z", "ended_at": null, "stop_reason": null,
        "total": 1200, "refused": 0, "processed": done, "queues": [{ "queue": "lab", "count": 1200 }],
    })
}

fn gateway(count: u64, exact: bool) -> Gateway {
    Gateway::start(move |_, asked: &Asked| match asked.target.as_str() {
        "/v1/discards" if asked.json()["expect"] == json!(1200) => {
            Answer::Json(202, discard("running", 0))
        }
        "/v1/discards" => Answer::Json(
            409,
            json!({
                "type": "urn:bezoar:problem:unexpected", "status": 409, "found": 1200,
                "detail": "found 1200 dead letters, expected 0",
            }),
        ),
        "/v1/replays/op_p560nmcj" => Answer::Json(200, discard("ended", 1200)),
        _ => {
            let matching = json!({ "count": count, "exact": exact });
            Answer::Json(200, json!({ "items": [], "next": null, "matching": matching }))
        }
    })
}

#[test]
fn without_a_terminal_the_number_must_be_given() {
    let gateway = gateway(1200, true);
    let filter = ["dead", "discard", "--queue", "lab", "--reason", "test data"];
    for more in [vec![], vec!["--expect", "1200"]] {
        let ended = run(bezoar(&gateway).args(filter).args(more));
        assert_eq!(ended.code, 1);
        assert!(ended.words.contains("--yes --expect N"), "{ended:?}");
    }
    assert_eq!(run(bezoar(&gateway).args(filter).arg("--yes")).code, 2);
    assert!(gateway.asked().is_empty());

    let ended = run(bezoar(&gateway).args(filter).args(["--yes", "--expect", "1200", "--json"]));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.words, "discard op_p560nmcj ended: 1,200 of 1,200 discarded\n");
    assert_eq!(ended.data, format!("{}\n", discard("ended", 1200)));
    let expected = json!({
        "filter": { "queue": "lab" }, "reason": "test data", "expect": 1200, "skip_held": false, "plan": false,
    });
    assert_eq!(gateway.asked()[0].json(), expected);
}

#[test]
fn a_wrong_number_discards_nothing() {
    let detail = "found 7 dead letters, expected 6; check the selection again";
    let gateway = Gateway::start(move |_, _| problem(409, "unexpected", detail));
    let arguments = ["dead", "discard", "--all", "--reason", "r", "--yes", "--expect", "6"];
    let ended = run(bezoar(&gateway).args(arguments));
    assert_eq!((ended.code, ended.words), (1, format!("bezoar: {detail}\n")));
}

/// Refuses to discard what a replay holds, unless that is left out.
fn gateway_with_held() -> Gateway {
    Gateway::start(|_, asked: &Asked| {
        let mut held = discard("running", 0);
        (held["total"], held["refused"]) = (json!(1), json!(2));
        held["held"] = json!([{ "operation": "op_y0ppfhjp", "count": 2 }]);
        match asked.target.as_str() {
            "/v1/discards" if asked.json()["skip_held"] == json!(false) => Answer::Json(
                409,
                json!({
                    "type": "urn:bezoar:problem:held", "detail": "some are held",
                    "held": [{ "operation": "op_y0ppfhjp", "count": 2 }],
                }),
            ),
            target if target.starts_with("/v1/dead-letters") => {
                let matching = json!({ "count": 3, "exact": true });
                Answer::Json(200, json!({ "items": [], "next": null, "matching": matching }))
            }
            "/v1/discards" if asked.json()["plan"] == json!(true) => {
                held["state"] = json!("planned");
                Answer::Json(202, held)
            }
            "/v1/discards" if asked.json()["expect"] == json!(1) => Answer::Json(202, held),
            "/v1/discards" => Answer::Json(
                409,
                json!({
                    "type": "urn:bezoar:problem:unexpected", "status": 409, "found": 1,
                    "detail": "found 1 dead letters, expected 0",
                }),
            ),
            _ => {
                (held["state"], held["processed"]) = (json!("ended"), json!(1));
                Answer::Json(200, held)
            }
        }
    })
}

const IDS: [&str; 3] = ["dl_g4jmah4z", "dl_ddbhm0jv", "dl_wfxggda2"];
const HELD: [&str; 4] = ["dead", "discard", "--reason", "test data"];

#[test]
fn dead_letters_that_another_operation_holds_can_be_left_out() {
    let gateway = gateway_with_held();
    let sure = ["--yes", "--expect", "1"];
    let ended = run(bezoar(&gateway).args(HELD).args(IDS).args(sure));
    assert_eq!(ended.code, 1);
    let words = "bezoar: 2 selected dead letters are held by op_y0ppfhjp; finish it with \
                 `bezoar dead replays op_y0ppfhjp --resume --reason TEXT` or --cancel, or pass --skip-held\n";
    assert_eq!(ended.words, words);

    let ended = run(bezoar(&gateway).args(HELD).args(IDS).args(sure).arg("--skip-held"));
    let words = "2 dead letters are not included: held by operation op_y0ppfhjp\n\
                 discard op_p560nmcj ended: 1 of 1 discarded\n";
    assert_eq!((ended.code, ended.words.as_str()), (0, words));
    let expected = json!({
        "ids": IDS, "reason": "test data", "expect": 1, "skip_held": true, "plan": false,
    });
    assert_eq!(gateway.asked()[1].json(), expected);
}

#[test]
fn at_a_terminal_the_holders_are_named_before_the_rest_is_typed() {
    let command = format!("dead discard {} --skip-held --reason r", IDS.join(" "));
    for (keys, code, order) in [("1\n", 0, "run"), ("no\n", 1, "cancel"), ("\u{3}", 1, "cancel")] {
        let gateway = gateway_with_held();
        let mut terminal = Terminal::start(&gateway, &command);
        terminal.wait_for("Type 1 to discard them:");
        terminal.press(keys);
        let (ended, screen) = terminal.end();
        assert_eq!(ended, code, "{screen:?}");
        let named = screen.find("held by operation op_y0ppfhjp").expect("the holder is named");
        assert!(named < screen.find("Type 1").unwrap(), "{screen:?}");
        let orders = gateway.asked().into_iter().filter(|asked| asked.method == "POST");
        let last = orders.last().unwrap();
        assert_eq!(
            (last.target.as_str(), &last.json()["command"]),
            ("/v1/replays/op_p560nmcj", &json!(order))
        );
    }
}

#[test]
fn at_a_terminal_nobody_is_asked_to_discard_what_is_held() {
    for selected in ["--all", &IDS.join(" ")] {
        let command = format!("dead discard {selected} --reason r");
        let (code, screen) = Terminal::start(&gateway_with_held(), &command).end();
        assert_eq!(code, 1, "{screen:?}");
        assert!(screen.contains("are held by op_y0ppfhjp"), "{screen:?}");
        assert!(!screen.contains("Type"), "{screen:?}");
    }
}

#[test]
fn letters_on_a_broker_are_held_by_nobody() {
    let gateway = gateway(1200, true);
    let arguments = ["dead", "discard", "--queue", "lab", "--reason", "r", "--on-broker"];
    assert_eq!(run(bezoar(&gateway).args(arguments).arg("--skip-held")).code, 2);
    assert!(gateway.asked().is_empty());
}

#[test]
fn at_a_terminal_the_number_is_typed() {
    // The gateway is asked for the exact number, whatever the list says.
    for (count, exact) in [(1200, true), (1000, false)] {
        let gateway = gateway(count, exact);
        let mut terminal = Terminal::start(&gateway, "dead discard --queue lab --reason r");
        terminal.wait_for("this removes 1,200 dead letters for good");
        terminal.wait_for("Type 1,200 to discard them:");
        terminal.press("1200\n");
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen:?}");
        assert!(screen.contains("discard op_p560nmcj ended"), "{screen:?}");
        assert_eq!(gateway.asked()[0].target, "/v1/dead-letters?limit=1&queue=lab&state=open");
        let discards = gateway.asked().into_iter().filter(|asked| asked.target == "/v1/discards");
        assert_eq!(discards.last().unwrap().json()["expect"], json!(1200));
    }
}

#[test]
fn at_a_terminal_a_yes_is_not_enough() {
    for keys in ["y\n", "\n", "120\n", "\u{3}"] {
        let gateway = gateway(1200, true);
        let mut terminal = Terminal::start(&gateway, "dead discard --all --reason r");
        terminal.wait_for("Type 1,200");
        terminal.press(keys);
        let (code, screen) = terminal.end();
        assert_eq!(code, 1);
        assert!(screen.contains("nothing was discarded"), "{screen:?}");
        let discards = gateway.asked().into_iter().filter(|asked| asked.target == "/v1/discards");
        let expected: Vec<_> = discards.map(|asked| asked.json()["expect"].clone()).collect();
        assert_eq!(expected, [json!(0)], "it only asked for the number");
    }
}
