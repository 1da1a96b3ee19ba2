//! Requests with an `Idempotency-Key` start one operation, however often they are repeated.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use support::{Endpoint, Lab, PATIENCE, route};
use tokio::time::timeout;

async fn lab_with_dead(count: usize) -> (Lab, Endpoint) {
    let endpoint = Endpoint::start().await;
    endpoint.answers(std::iter::repeat_n(422, count));
    let lab = Lab::start(&route(endpoint.port, "")).await;
    for number in 0..count {
        lab.send("lab", &[], &number.to_string()).await;
        lab.until("lab", |row| row["dead"] == number + 1).await;
    }
    (lab, endpoint)
}

/// Status, whether it is a repetition, and the answer.
async fn ask(lab: &Lab, path: &str, key: &str, body: &Value) -> (StatusCode, bool, Value) {
    let body = Bytes::from(body.to_string());
    let headers = [("idempotency-key", key)];
    let (status, headers, answer) = lab.call_with_headers(Method::POST, path, &headers, body).await;
    (status, headers.get("idempotency-replayed").is_some_and(|it| it == "true"), answer)
}

async fn count(lab: &Lab, path: &str) -> usize {
    lab.get(path).await.1["items"].as_array().unwrap().len()
}

/// Waits until an operation has ended.
async fn ended(lab: &Lab, operation: &Value) -> Value {
    let path = format!("/v1/replays/{}", operation["id"].as_str().unwrap());
    let looking = async {
        loop {
            let (_, operation) = lab.get(&path).await;
            if operation["state"] == "ended" {
                return operation;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, looking).await.expect("the operation ends")
}

#[tokio::test]
async fn a_repeated_request_returns_the_operation_even_after_it_ended_and_a_restart() {
    let (lab, endpoint) = lab_with_dead(2).await;
    let (_, letters) = lab.get("/v1/dead-letters").await;
    let ids: Vec<_> = letters["items"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    let body = json!({ "ids": ids, "reason": "fixed" });
    let (status, is_repetition, first) = ask(&lab, "/v1/replays", "k-1", &body).await;
    assert_eq!((status, is_repetition), (StatusCode::ACCEPTED, false), "{first}");
    ended(&lab, &first).await;
    // Its dead letters are gone: without the key this would be 404.
    let (status, is_repetition, second) = ask(&lab, "/v1/replays", "k-1", &body).await;
    assert_eq!((status, is_repetition), (StatusCode::ACCEPTED, true), "{second}");
    assert_eq!((&second["id"], &second["completed"]), (&first["id"], &json!(2)));
    let lab = lab.restarted(&route(endpoint.port, "")).await;
    let (_, is_repetition, third) = ask(&lab, "/v1/replays", "k-1", &body).await;
    assert!(is_repetition && third["id"] == first["id"], "{third}");
    assert_eq!((count(&lab, "/v1/replays").await, endpoint.so_far()), (1, 4));
    let (status, _) = lab.post("/v1/replays", &[], &body.to_string()).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "a request without a key is a new one");
}

#[tokio::test]
async fn equal_requests_at_the_same_time_start_one_operation() {
    let (lab, _) = lab_with_dead(3).await;
    let body = json!({ "filter": {}, "expect": 3, "reason": "of no use" });
    let asked = (0..8).map(|_| ask(&lab, "/v1/discards", "k-1", &body));
    let answers = futures_util::future::join_all(asked).await;
    let first = &answers[0].2["id"];
    for (status, _, answer) in &answers {
        assert_eq!((*status, &answer["id"]), (StatusCode::ACCEPTED, first), "{answer}");
    }
    let repetitions = answers.iter().filter(|(_, is_repetition, _)| *is_repetition).count();
    assert_eq!((repetitions, count(&lab, "/v1/discards").await), (7, 1));
    assert_eq!(ended(&lab, &answers[0].2).await["processed"], 3);
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let (lab, _) = lab_with_dead(1).await;
    let plan = json!({ "filter": {}, "reason": "later", "plan": true });
    let (status, _, planned) = ask(&lab, "/v1/replays", "k-1", &plan).await;
    assert_eq!(status, StatusCode::OK, "{planned}");
    // The order of members makes no difference.
    let same = Bytes::from_static(br#"{"plan": true, "reason":"later", "filter":{}}"#);
    let key = [("idempotency-key", "k-1")];
    let (status, _, again) = lab.call_with_headers(Method::POST, "/v1/replays", &key, same).await;
    assert_eq!((status, &again["id"]), (StatusCode::OK, &planned["id"]));
    assert_eq!(again["state"], "planned", "a plan is not started by its repetition");
    let other = json!({ "filter": {}, "reason": "other", "plan": true });
    for (path, body) in [("/v1/replays", &other), ("/v1/discards", &plan)] {
        let (status, _, problem) = ask(&lab, path, "k-1", body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["type"].as_str().unwrap().ends_with("idempotency-key-reused"), "{problem}");
    }
    let (status, _, problem) = ask(&lab, "/v1/replays", &"k".repeat(256), &other).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
    assert_eq!(count(&lab, "/v1/discards").await, 0);
}

/// As if the gateway had been killed between planning and starting: the repetition starts it.
#[tokio::test]
async fn a_repetition_starts_what_was_only_planned() {
    let (lab, _) = lab_with_dead(1).await;
    let body = json!({ "filter": {}, "reason": "fixed" });
    let (_, _, first) = ask(&lab, "/v1/replays", "k-1", &body).await;
    ended(&lab, &first).await;
    let file = lab.folder.path().join("bezoar.db");
    let store = rusqlite::Connection::open(file).unwrap();
    store.execute("UPDATE bezoar_operations SET state = 'planned', ended_at = NULL", []).unwrap();
    drop(store);
    let (status, is_repetition, again) = ask(&lab, "/v1/replays", "k-1", &body).await;
    assert_eq!((status, is_repetition), (StatusCode::ACCEPTED, true), "{again}");
    assert_eq!(again["id"], first["id"]);
    assert_ne!(again["state"], "planned", "{again}");
}
