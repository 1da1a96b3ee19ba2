//! Where messages are: repetitions, `/v1/messages/{id}`, and looking into queues.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use http::StatusCode;
use serde_json::{Value, json};
use support::{Endpoint, Lab, route};

const QUEUE: &str = "/v1/queues/default/messages";

async fn place(lab: &Lab, id: &str) -> Value {
    let (status, place) = lab.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(status, StatusCode::OK, "{place}");
    place
}

#[tokio::test]
async fn a_repetition_says_so_in_single_answers_and_in_batches() {
    let lab = Lab::start("").await;
    for (body, status, repeated) in
        [("a", 202, json!(false)), ("a", 202, json!(true)), ("b", 409, Value::Null)]
    {
        let (found, answer) = lab.post(QUEUE, &[("bezoar-id", "m-1")], body).await;
        assert_eq!((found.as_u16(), &answer["repeated"]), (status, &repeated), "{answer}");
    }
    let batch = json!([{ "id": "m-2", "body": 1 }, { "id": "m-2", "body": 1 }, { "body": 2 }]);
    let (_, answer) = lab.post("/v1/queues/default/batches", &[], &batch.to_string()).await;
    assert_eq!((&answer["accepted"], &answer["repeated"]), (&json!(3), &json!(1)), "{answer}");
    let repeated: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|it| it["repeated"].clone()).collect();
    assert_eq!(repeated, [false, true, false]);
}

#[tokio::test]
async fn a_message_is_followed_from_its_queue_to_its_end() {
    let endpoint = Endpoint::start().await;
    endpoint.answers([200, 422]);
    let lab = Lab::start(&(route(endpoint.port, "") + "[[queue]]\nname = \"default\"\n")).await;
    lab.send("default", &[("bezoar-id", "waits")], "").await;
    lab.send("default", &[("bezoar-id", "later"), ("bezoar-delay", "1h")], "").await;
    let waits = place(&lab, "waits").await;
    assert_eq!(
        (&waits["state"], &waits["queues"][0]["queue"]),
        (&json!("waiting"), &json!("default"))
    );
    let later = place(&lab, "later").await;
    assert_eq!(
        (&later["state"], &later["queues"][0]["state"]),
        (&json!("delayed"), &json!("delayed"))
    );
    let message = &later["queues"][0]["message"];
    let time = |name: &str| message[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time("due_at") > time("sent_at"), "{message}");
    lab.send("lab", &[("bezoar-id", "done")], "").await;
    lab.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    assert_eq!(place(&lab, "done").await["state"], "done");
    lab.send("lab", &[("bezoar-id", "dies")], "").await;
    lab.until("lab", |row| row["dead"] == 1).await;
    assert_eq!(place(&lab, "dies").await["state"], "dead");
    assert_eq!(place(&lab, "never-sent").await["state"], "not_known");
}

#[tokio::test]
async fn a_queue_is_looked_into_page_by_page_without_taking_anything() {
    let lab = Lab::start("").await;
    for number in 0..5 {
        let id = format!("m-{number}");
        let headers = [("bezoar-id", id.as_str()), ("bezoar-header-ward", "CANARY")];
        lab.send("default", &headers, "CANARY").await;
    }
    lab.send("default", &[("bezoar-id", "later"), ("bezoar-delay", "1h")], "").await;
    let (mut ids, mut next) = (Vec::new(), String::new());
    loop {
        let (status, page) = lab.get(&format!("{QUEUE}?limit=2{next}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        assert!(!page.to_string().contains("CANARY"), "{page}");
        for item in page["items"].as_array().unwrap() {
            assert_eq!((&item["body_bytes"], &item["header_names"]), (&json!(6), &json!(["ward"])));
            ids.push(item["message_id"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    assert_eq!(ids, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
    let (_, delayed) = lab.get(&format!("{QUEUE}?state=delayed")).await;
    assert_eq!(delayed["items"][0]["message_id"], "later");
    for (query, expected) in
        [("?state=dead", 400), ("?limit=0", 400), ("?after=x", 404), ("?before=1", 400)]
    {
        let (status, problem) = lab.get(&format!("{QUEUE}{query}")).await;
        assert_eq!(status.as_u16(), expected, "{query}: {problem}");
    }
    lab.until("default", |row| row["ready"] == 5 && row["delayed"] == 1).await;
}
