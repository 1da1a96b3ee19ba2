//! What operators do about dead letters, by the HTTP API.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use bezoar::{DeadLetterId, catalogue::OperationId};
use bezoar_gateway::{Gateway, telemetry::Metrics};
use http::StatusCode;
use serde_json::{Value, json};
use support::{Endpoint, Lab, PATIENCE, route};
use tokio::time::timeout;

const CANARY: &str = "CANARY-patient-doe";

/// A lab with so many dead letters, whose endpoint takes everything from now on.
async fn lab_with_dead(count: usize, more: &str) -> (Lab, Endpoint) {
    let endpoint = Endpoint::start().await;
    endpoint.answers(std::iter::repeat_n(422, count));
    let lab = Lab::start(&(route(endpoint.port, "") + more)).await;
    for number in 0..count {
        let headers = [("bezoar-header-name", CANARY), ("bezoar-id", &format!("m-{number}"))];
        lab.send("lab", &headers, &format!("{CANARY} {number}")).await;
        lab.until("lab", |row| row["dead"] == number + 1).await;
    }
    (lab, endpoint)
}

async fn ask(lab: &Lab, path: &str, body: Value) -> (StatusCode, Value) {
    lab.post(path, &[], &body.to_string()).await
}

/// Waits until an operation is in a state.
async fn until(lab: &Lab, operation: &Value, state: &str) -> Value {
    let path = format!("/v1/replays/{}", id(operation));
    let looking = async {
        loop {
            let (_, operation) = lab.get(&path).await;
            if operation["state"] == state {
                return operation;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, looking).await.expect("the operation gets there")
}

/// The id of a dead letter or an operation.
fn id(shown: &Value) -> &str {
    shown["id"].as_str().unwrap()
}

/// The id of the newest dead letter.
async fn newest(lab: &Lab) -> String {
    let (_, list) = lab.get("/v1/dead-letters?limit=1").await;
    id(&list["items"][0]).to_owned()
}

async fn audited(lab: &Lab) -> Vec<String> {
    let (_, log) = lab.get("/v1/audit?order=oldest_first").await;
    let line = |entry: &Value| {
        format!("{} {}", entry["verb"].as_str().unwrap(), entry["target"].as_str().unwrap())
    };
    log["items"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn dead_letters_are_found_by_what_is_known_of_them_and_grouped_by_cause() {
    let (lab, _) = lab_with_dead(3, "").await;
    let (_, all) = lab.get("/v1/dead-letters").await;
    assert_eq!(all["matching"], json!({ "count": 3, "exact": true }));
    let ids: Vec<_> =
        all["items"].as_array().unwrap().iter().map(|row| row["message_id"].clone()).collect();
    assert_eq!(ids, ["m-2", "m-1", "m-0"]);
    for (query, expected) in [
        ("queue=lab&kind=permanent&code=http.422&type=message", 3),
        ("route=results", 3),
        ("kind=transient", 0),
        ("message_id=m-1", 1),
        ("since=1h&state=open&replayed=false&min_attempts=1", 3),
        ("until=1h", 0),
    ] {
        let (status, found) = lab.get(&format!("/v1/dead-letters?{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}: {found}");
        assert_eq!(found["items"].as_array().unwrap().len(), expected, "{query}");
    }
    let (_, causes) = lab.get("/v1/causes").await;
    let cause = &causes["items"][0];
    assert_eq!((&cause["count"], &cause["added_this_hour"]), (&json!(3), &json!(3)));
    assert_eq!(cause["title"], "http.422 (permanent) of message in lab");
    let path = format!("/v1/causes/{}", cause["id"].as_str().unwrap());
    let (_, marked) = ask(&lab, &path, json!({ "state": "acknowledged", "note": "seen" })).await;
    assert_eq!(
        (&marked["state"], &marked["note"]["text"]),
        (&json!("acknowledged"), &json!("seen"))
    );
}

#[tokio::test]
async fn pages_go_through_all_once() {
    let (lab, _) = lab_with_dead(5, "").await;
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let (_, page) = lab.get(&format!("/v1/dead-letters?limit=2{next}")).await;
        seen.extend(page["items"].as_array().unwrap().iter().map(|row| row["id"].clone()));
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    let (_, whole) = lab.get("/v1/dead-letters").await;
    let whole: Vec<_> =
        whole["items"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
    assert_eq!((seen.len(), seen), (5, whole));
}

#[tokio::test]
async fn causes_are_listed_page_by_page() {
    let endpoint = Endpoint::start().await;
    let lab = Lab::start(&route(endpoint.port, "")).await;
    for (number, status) in [400, 409, 422, 422].into_iter().enumerate() {
        lab.send("lab", &[], &format!("answer {status}")).await;
        lab.until("lab", |row| row["dead"] == number + 1).await;
    }
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let (status, page) = lab.get(&format!("/v1/causes?limit=1{next}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        seen.extend(page["items"].as_array().unwrap().iter().map(|cause| cause["code"].clone()));
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    assert_eq!((seen.len(), &seen[0]), (3, &json!("http.422")), "{seen:?}");
    let (status, _) = lab.get("/v1/causes?after=v1:0000000000000000").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn content_is_shown_only_when_revealed_and_revealing_is_audited() {
    let (lab, _) = lab_with_dead(1, "").await;
    let one = format!("/v1/dead-letters/{}", newest(&lab).await);
    for path in ["/v1/dead-letters", &one, "/v1/causes", "/v1/audit", "/v1/replays"] {
        let (status, answer) = lab.get(path).await;
        assert!(status.is_success() && !answer.to_string().contains(CANARY), "{path}: {answer}");
    }
    let wanted = json!({ "reason": "ticket 7", "what": ["body", "headers", "details"] });
    let (_, revealed) = ask(&lab, &format!("{one}/reveal"), wanted).await;
    assert_eq!(revealed["headers"]["name"], CANARY);
    assert!(revealed["body_base64"].is_string() && revealed["details"].is_array(), "{revealed}");
    let target = format!("reveal dead letter {}: body, headers, details", id(&revealed));
    assert_eq!(audited(&lab).await, [target]);
    let (_, log) = lab.get("/v1/audit").await;
    assert_eq!(log["items"][0]["actor"], "local");
    assert_eq!(log["items"][0]["address"], "127.0.0.1");
    assert_eq!(log["items"][0]["reason"], "ticket 7");
}

#[tokio::test]
async fn a_replay_sends_each_message_once_and_knows_every_result() {
    let (lab, endpoint) = lab_with_dead(4, "").await;
    endpoint.answers([200, 200, 200, 422]);
    let wanted = json!({ "reason": "mended", "filter": { "queue": "lab" }, "expect": 4 });
    let (status, replay) = ask(&lab, "/v1/replays", wanted).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{replay}");
    let ended = until(&lab, &replay, "ended").await;
    let counts =
        ["total", "processed", "completed", "failed", "in_flight"].map(|it| ended[it].clone());
    assert_eq!(counts, [4, 4, 3, 1, 0]);
    let (_, log) = lab.get("/v1/audit?verb=replay").await;
    let outcome = json!({
        "operation": id(&replay), "state": "ended", "total": 4, "processed": 4, "completed": 3, "failed": 1
    });
    assert_eq!(log["items"][0]["outcome"], outcome, "{log}");
    let (_, messages) = lab.get(&format!("/v1/replays/{}/messages", id(&replay))).await;
    let states = |state: &str| {
        messages["items"].as_array().unwrap().iter().filter(|it| it["state"] == state).count()
    };
    assert_eq!((states("completed"), states("failed_again")), (3, 1));
    let requests = endpoint.requests(8).await;
    let replayed: Vec<_> =
        requests.iter().filter(|(head, _)| head.contains_key("bezoar-replay")).collect();
    assert_eq!(replayed.len(), 4);
    assert!(replayed.iter().all(|(head, _)| head["bezoar-attempt"] == "1"));
    assert!(replayed.iter().all(|(head, _)| head["bezoar-replay"] == id(&replay)), "{replayed:?}");
}

#[tokio::test]
async fn the_rest_goes_only_after_the_canary_completed() {
    let (lab, endpoint) = lab_with_dead(5, "").await;
    endpoint.answers([422]);
    let wanted = json!({ "reason": "try one", "filter": {}, "canary": 1 });
    let (_, replay) = ask(&lab, "/v1/replays", wanted).await;
    let stopped = until(&lab, &replay, "stopped").await;
    assert_eq!((&stopped["processed"], &stopped["failed"]), (&json!(1), &json!(1)));
    assert_eq!(stopped["stop_reason"], json!("a canary message failed"), "{stopped}");
    let path = format!("/v1/replays/{}", id(&replay));
    let (_, cancelled) = ask(&lab, &path, json!({ "command": "cancel", "reason": "no" })).await;
    assert_eq!(cancelled["state"], "cancelled");
    let (_, replay) =
        ask(&lab, "/v1/replays", json!({ "reason": "again", "filter": {}, "canary": 2 })).await;
    let ended = until(&lab, &replay, "ended").await;
    assert_eq!((&ended["total"], &ended["completed"]), (&json!(5), &json!(5)));
}

#[tokio::test]
async fn a_plan_is_frozen_and_reserves_its_dead_letters() {
    let (lab, endpoint) = lab_with_dead(2, "").await;
    let (status, plan) =
        ask(&lab, "/v1/replays", json!({ "reason": "look", "filter": {}, "plan": true })).await;
    assert_eq!(
        (status, &plan["state"], &plan["total"]),
        (StatusCode::OK, &json!("planned"), &json!(2))
    );
    let taken = newest(&lab).await;
    endpoint.answers([422]);
    lab.send("lab", &[("bezoar-id", "late")], "x").await;
    lab.until("lab", |row| row["dead"] == 3).await;
    let (status, other) =
        ask(&lab, "/v1/replays", json!({ "reason": "me too", "ids": [taken] })).await;
    let held = |count: u32| json!([{ "operation": plan["id"], "count": count }]);
    assert_eq!((status, &other["held"]), (StatusCode::CONFLICT, &held(1)), "{other}");
    let wanted = json!({ "reason": "all", "filter": {}, "expect": 3 });
    let (status, refused) = ask(&lab, "/v1/discards", wanted).await;
    assert_eq!((status, &refused["held"]), (StatusCode::CONFLICT, &held(2)), "{refused}");
    let wanted = json!({ "reason": "all", "filter": {}, "expect": 3, "skip_held": true });
    let (status, refused) = ask(&lab, "/v1/discards", wanted).await;
    assert_eq!((status, &refused["found"]), (StatusCode::CONFLICT, &json!(1)), "{refused}");
    let path = format!("/v1/replays/{}", id(&plan));
    let pause = json!({ "command": "pause", "reason": "wait" });
    let (_, refused) = ask(&lab, &path, pause.clone()).await;
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.ends_with("has not started; start or cancel it"), "{refused}");
    ask(&lab, &path, json!({ "command": "run", "reason": "go" })).await;
    assert_eq!(until(&lab, &plan, "ended").await["completed"], 2);
    let (_, refused) = ask(&lab, &path, pause).await;
    assert!(refused["detail"].as_str().unwrap().contains("has ended"), "{refused}");
    lab.until("lab", |row| row["dead"] == 1).await;
}

#[tokio::test]
async fn discarding_needs_the_right_number() {
    let (lab, _) = lab_with_dead(3, "").await;
    let (status, problem) =
        ask(&lab, "/v1/discards", json!({ "reason": "old", "filter": {}, "expect": 2 })).await;
    assert_eq!((status, &problem["found"]), (StatusCode::CONFLICT, &json!(3)));
    let (_, discard) =
        ask(&lab, "/v1/discards", json!({ "reason": "old", "filter": {}, "expect": 3 })).await;
    assert_eq!(until(&lab, &discard, "ended").await["processed"], 3);
    lab.until("lab", |row| row["dead"] == 0).await;
}

#[tokio::test]
async fn an_edit_is_a_new_version_that_somebody_else_approves() {
    let rules = r#"
        [dead_letters]
        editable = ["lab"]
        approval = true
        [[token]]
        name = "ann"
        role = "admin"
        secret = "token-of-ann-0123"
        [[token]]
        name = "bob"
        role = "admin"
        secret = "token-of-bob-0123"
    "#;
    let endpoint = Endpoint::start().await;
    endpoint.answers([422]);
    let lab = Lab::start(&(route(endpoint.port, "") + rules)).await.with_token("token-of-ann-0123");
    lab.send("lab", &[("content-type", "application/json")], r#"{"patient": 7}"#).await;
    lab.until("lab", |row| row["dead"] == 1).await;
    let patch = json!([{ "op": "replace", "path": "/patient", "value": 8 }]);
    let original = newest(&lab).await;
    let path = format!("/v1/dead-letters/{original}");
    let wanted = json!({ "reason": "typo", "patch": patch });
    let (status, made) = ask(&lab, &format!("{path}/edits"), wanted).await;
    assert_eq!(
        (status, &made["state"], &made["edited_from"]),
        (StatusCode::OK, &json!("unapproved"), &json!(original)),
        "{made}"
    );
    let approval = format!("/v1/dead-letters/{}/approve", id(&made));
    let (status, own) = ask(&lab, &approval, json!({ "reason": "fine" })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{own}");
    let lab = lab.with_token("token-of-bob-0123");
    let (_, approved) = ask(&lab, &approval, json!({ "reason": "fine" })).await;
    assert_eq!(approved["state"], "open");
    let (_, replay) =
        ask(&lab, "/v1/replays", json!({ "reason": "go", "ids": [made["id"]] })).await;
    assert_eq!(until(&lab, &replay, "ended").await["completed"], 1);
    let requests = endpoint.requests(2).await;
    assert_eq!(requests[1].1, r#"{"patient":8}"#);
    let (_, original) = lab.get(&path).await;
    assert_eq!(original["state"], "edited");
}

#[tokio::test]
async fn an_import_that_was_changed_needs_approval_as_an_edit_does() {
    let rules = r#"
        [dead_letters]
        approval = true
        [[token]]
        name = "ann"
        role = "admin"
        secret = "token-of-ann-0123"
    "#;
    let endpoint = Endpoint::start().await;
    endpoint.answers([422, 422]);
    let lab = Lab::start(&(route(endpoint.port, "") + rules)).await.with_token("token-of-ann-0123");
    for _ in 0..2 {
        lab.send("lab", &[], "x").await;
    }
    lab.until("lab", |row| row["dead"] == 2).await;
    let lines = lab.text("/v1/exports", &json!({ "reason": "archive" }).to_string()).await;
    let wanted = json!({ "reason": "old", "filter": {}, "expect": 2 });
    let (_, discard) = ask(&lab, "/v1/discards", wanted).await;
    until(&lab, &discard, "ended").await;
    let (first, second) = lines.split_once('\n').unwrap();
    let changed = first.replace("\"eA==\"", "\"eQ==\"");
    assert_ne!(changed, first);
    let both = format!("{changed}\n{second}");
    let (_, answer) = lab.post("/v1/imports?reason=back", &[], &both).await;
    assert_eq!(answer["imported"], 2, "{answer}");
    let (_, list) = lab.get("/v1/dead-letters").await;
    let states: Vec<_> = list["items"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states.iter().filter(|state| **state == "unapproved").count(), 1, "{list}");
    assert_eq!(states.iter().filter(|state| **state == "open").count(), 1, "{list}");
}

#[tokio::test]
async fn edits_are_refused_where_they_are_not_allowed() {
    let (lab, _) = lab_with_dead(1, "").await;
    let wanted = json!({ "reason": "typo", "headers": { "a": "b" } });
    let (status, problem) =
        ask(&lab, &format!("/v1/dead-letters/{}/edits", newest(&lab).await), wanted).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(problem["detail"].as_str().unwrap().contains("dead_letters.editable"), "{problem}");
}

#[tokio::test]
async fn nonsense_is_refused_with_what_to_do_and_nothing_is_done() {
    let (lab, _) = lab_with_dead(1, "").await;
    let one = newest(&lab).await;
    let no_letter = DeadLetterId::from_number(99).to_string();
    let no_operation = OperationId::from_number(99).to_string();
    for (path, body, part) in [
        ("/v1/replays", json!({ "reason": "x" }), "either ids or a filter"),
        ("/v1/replays", json!({ "reason": " ", "ids": [one] }), "a reason is required"),
        ("/v1/replays", json!({ "reason": "x", "ids": [one], "filter": {} }), "either ids"),
        (
            "/v1/replays",
            json!({ "reason": "x", "ids": [no_letter] }),
            &format!("unknown dead letter {no_letter}"),
        ),
        (
            "/v1/replays",
            json!({ "reason": "x", "ids": [one, CANARY] }),
            "ids[1]: the id of a dead letter is dl_ and 8 or 13 letters and digits",
        ),
        (
            "/v1/discards",
            json!({ "reason": "x", "ids": [no_operation], "expect": 1 }),
            &format!("ids[0]: {no_operation} is the id of an operation, not of a dead letter"),
        ),
        ("/v1/replays", json!({ "reason": "x", "ids": [1] }), "line 1"),
        ("/v1/replays", json!({ "reason": "x", "ids": [one], "rate": 0 }), "above 0"),
        ("/v1/replays", json!({ "reason": "x", "filter": { "quue": "lab" } }), "line 1"),
        (
            "/v1/replays",
            json!({ "reason": "x", "filter": { "queue": "lba" } }),
            "known queues: lab",
        ),
        ("/v1/replays", json!({ "reason": "x", "filter": { "cause": "7" } }), "v1:"),
        (
            "/v1/replays",
            json!({ "reason": "x", "filter": { "cause": "v1:0123456789abcdef" } }),
            "unknown cause v1:0123456789abcdef",
        ),
        ("/v1/replays", json!({ "resaon": "x" }), "line 1"),
        ("/v1/discards", json!({ "reason": "x", "filter": {} }), "expect is required"),
        (
            &format!("/v1/replays/{no_operation}"),
            json!({ "command": "run", "reason": "x" }),
            &format!("unknown replay or discard {no_operation}"),
        ),
        (
            &format!("/v1/replays/{one}"),
            json!({ "command": "run", "reason": "x" }),
            &format!("{one} is the id of a dead letter, not of an operation"),
        ),
        (
            &format!("/v1/dead-letters/{no_letter}/reveal"),
            json!({ "reason": "x" }),
            &format!("unknown dead letter {no_letter}"),
        ),
        (
            "/v1/dead-letters/1/reveal",
            json!({ "reason": "x" }),
            "the id of a dead letter is dl_ and 8 or 13 letters and digits",
        ),
        ("/v1/causes/v1:0123456789abcdef", json!({ "state": "resolved" }), "unknown cause"),
        ("/v1/imports?reason=x", json!({ "form": CANARY }), "line 1"),
    ] {
        let (status, problem) = ask(&lab, path, body.clone()).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(
            status.is_client_error() && detail.contains(part),
            "{path} {body}: {status} {problem}"
        );
        assert!(!detail.contains(CANARY), "{detail}");
    }
    assert_eq!(audited(&lab).await, Vec::<String>::new());
    assert_eq!(lab.get("/v1/replays").await.1["items"], json!([]), "nothing was planned");
    lab.until("lab", |row| row["dead"] == 1).await;
}

#[tokio::test]
async fn an_export_is_imported_once_and_whole() {
    let (lab, endpoint) = lab_with_dead(2, "").await;
    let lines = lab.text("/v1/exports", &json!({ "reason": "archive" }).to_string()).await;
    assert_eq!(lines.lines().count(), 2);
    let (_, log) = lab.get("/v1/audit").await;
    for target in ["all dead letters (2)", "created this store's export id"] {
        assert!(log.to_string().contains(target), "{target:?} is missing in {log}");
    }
    let (_, refused) = lab.post("/v1/imports?reason=x", &[], &format!("{lines}[server]\n")).await;
    let detail = "line 3: not a dead letter written by `bezoar dead export` (column ";
    assert!(refused["detail"].as_str().unwrap().starts_with(detail), "{refused}");
    assert_eq!(refused["line"], json!(3));
    let (_, same) = lab.post("/v1/imports?reason=again", &[], &lines).await;
    assert_eq!((&same["imported"], &same["known_already"]), (&json!(0), &json!(2)), "its own");
    let (other, _) = lab_with_dead(0, "").await;
    for (imported, known) in [(2, 0), (0, 2)] {
        let (status, answer) = other.post("/v1/imports?reason=move", &[], &lines).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(
            (&answer["imported"], &answer["known_already"]),
            (&json!(imported), &json!(known))
        );
    }
    let (_, there) = other.get("/v1/dead-letters").await;
    assert_eq!(there["matching"]["count"], 2);
    let (_, replay) = ask(&other, "/v1/replays", json!({ "reason": "go", "filter": {} })).await;
    assert_eq!(until(&other, &replay, "ended").await["completed"], 2);
    drop(endpoint);
}

#[tokio::test]
async fn an_export_can_be_imported_again_after_its_letters_were_replayed() {
    let (lab, _endpoint) = lab_with_dead(2, "").await;
    let lines = lab.text("/v1/exports", &json!({ "reason": "archive" }).to_string()).await;
    let (_, replay) = ask(&lab, "/v1/replays", json!({ "reason": "go", "filter": {} })).await;
    assert_eq!(until(&lab, &replay, "ended").await["completed"], 2);
    let (status, answer) = lab.post("/v1/imports?reason=again", &[], &lines).await;
    assert_eq!((status, &answer["imported"]), (StatusCode::OK, &json!(2)), "{answer}");
}

#[tokio::test]
async fn an_import_that_differs_from_a_letter_in_the_store_is_a_conflict() {
    let (lab, _endpoint) = lab_with_dead(2, "").await;
    let lines = lab.text("/v1/exports", &json!({ "reason": "archive" }).to_string()).await;
    let mut changed: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    changed[0]["message"]["body_base64"] = json!("Y2hhbmdlZA==");
    // The other one is known nowhere: it shows that all are imported or none.
    changed[1]["stamp"] = json!("elsewhere/1");
    let text = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let (status, problem) = lab.post("/v1/imports?reason=again", &[], &text(&changed)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("other content; nothing was imported"), "{detail}");
    let (_, there) = lab.get("/v1/dead-letters").await;
    assert_eq!(there["matching"]["count"], 2);
    changed.remove(0);
    let (_, answer) = lab.post("/v1/imports?reason=again", &[], &text(&changed)).await;
    assert_eq!(answer["imported"], 1);
}

#[tokio::test]
async fn a_pause_and_a_running_replay_outlive_a_restart() {
    let (lab, endpoint) = lab_with_dead(3, "").await;
    let (status, _) = lab.post("/v1/routes/results/pause", &[], "").await;
    assert_eq!(status, StatusCode::OK);
    let (_, replay) = ask(&lab, "/v1/replays", json!({ "reason": "go", "filter": {} })).await;
    let config = lab.config(&route(endpoint.port, ""));
    let lab = lab.restart(config).await;
    let row = lab.until("lab", |row| row["ready"] == 3).await;
    assert_eq!(row["route"]["paused"], "paused by an operator");
    lab.post("/v1/routes/results/resume", &[], "").await;
    assert_eq!(until(&lab, &replay, "ended").await["completed"], 3);
    let acts = audited(&lab).await;
    assert!(acts.contains(&"pause route results".to_owned()), "{acts:?}");
}

impl Lab {
    /// The text of an answer.
    async fn text(&self, path: &str, body: &str) -> String {
        let url = format!("http://{}{path}", self.gateway.address());
        let request = http::Request::post(url)
            .header("authorization", format!("Bearer {}", self.token()))
            .body(http_body_util::Full::new(bytes::Bytes::copy_from_slice(body.as_bytes())));
        let client =
            hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
        let reply = client.build_http().request(request.unwrap()).await.unwrap();
        assert_eq!(reply.status(), StatusCode::OK);
        let body = http_body_util::BodyExt::collect(reply.into_body()).await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// The same store, with another gateway.
    async fn restart(self, config: bezoar_gateway::config::Config) -> Self {
        let Self { gateway, folder, token } = self;
        gateway.stop().await;
        let gateway = Gateway::start(config, Metrics::local()).await.unwrap();
        Self { gateway, folder, token }
    }
}
