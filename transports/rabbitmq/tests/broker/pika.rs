//! The Python client pika, as programs use it beside ours: its messages keep all they have, and it can read ours.
//!
//! `BEZOAR_TEST_PIKA` is a Python interpreter with pika.

use std::{env, path::Path, time::Duration};

use bezoar_core::{CorrelationId, Settlement};
use serde_json::{Value, json};
use tokio::process::Command;

use super::support::{Place, TYPES, dead_letter, message, one, retry, settle, url};

/// Runs a script of `tests/pika` on a queue; returns the message that it prints.
async fn run(script: &str, queue: &str) -> Value {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pika");
    let python = env::var_os("BEZOAR_TEST_PIKA").expect("BEZOAR_TEST_PIKA is set");
    // -B keeps `__pycache__` out of the sources.
    let mut command = Command::new(python);
    command.arg("-B").arg(scripts.join(script)).args([&url(), queue]);
    let done = command.kill_on_drop(true).output().await.unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Asserts that all headers of `sent` are in `got`, with their types.
#[track_caller]
fn assert_headers_kept(sent: &Value, got: &Value) {
    for (name, value) in sent["headers"].as_object().unwrap() {
        assert_eq!(&got["headers"][name], value, "header {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP and pika in BEZOAR_TEST_PIKA; `cargo xtask test` has both"]
async fn a_message_of_pika_keeps_its_types_through_retry_dead_letter_and_replay() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let sent = run("publish.py", place.queue.as_str()).await;
        let worker = place.worker().await;
        let first = one(&*worker).await;
        let header = |name: &str| first.message.headers[name].reveal().to_string();
        assert_eq!(header("text"), "St. Mary's 🏥");
        assert_eq!((header("small"), header("largest")), ("7".to_owned(), i64::MAX.to_string()));
        assert_eq!(header("time"), "1767323045", "seconds since 1970");
        let nested: Value = serde_json::from_str(&header("nested")).unwrap();
        assert_eq!(nested["table"]["again"]["and"]["again"], 1);
        assert_eq!(nested["list"][1], "two");
        assert_eq!(first.message.id.as_str(), "pika-1");
        assert_eq!(first.message.message_type.as_str(), "lab.result");
        settle(&*worker, first, retry(Duration::from_millis(50))).await;

        let second = one(&*worker).await;
        assert_eq!(second.message.ledger.failed, 1);
        settle(&*worker, second, dead_letter()).await;
        let dead = run("read.py", &format!("{}.dead", place.queue)).await;
        assert_headers_kept(&sent, &dead);
        assert_eq!(dead["body"], sent["body"]);
        let headers = &dead["headers"];
        assert_eq!(headers["bezoar-reason-code"], json!(["str", "test"]));
        assert_eq!(headers["bezoar-reason"], json!(["str", "dead-lettered by a test"]));
        assert_eq!(headers["bezoar-failed"][1], 1);
        assert_eq!(headers["bezoar-expiration"], json!(["str", "600000"]), "a letter stays");
        assert_eq!(dead["properties"]["expiration"], Value::Null);

        worker.close().await.unwrap(); // it would prefetch the message, and give it back changed
        assert_eq!(place.replay_all().await, 1);
        let replayed = run("read.py", place.queue.as_str()).await;
        assert_headers_kept(&sent, &replayed);
        assert_eq!(replayed["properties"], sent["properties"]);
        assert_eq!(replayed["body"], sent["body"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP and pika in BEZOAR_TEST_PIKA; `cargo xtask test` has both"]
async fn pika_reads_what_we_send() {
    for queue_type in TYPES {
        let place = Place::new(queue_type).await;
        let mut message = message("m");
        message.correlation_id = Some(CorrelationId::new("c-7").unwrap());
        message.headers.insert("ward".to_owned(), "St. Mary's 🏥".into());
        message.headers.insert("x-own".to_owned(), "visible".into());
        message.headers.insert("x-delivery-count".to_owned(), "reserved".into());
        place.send(message).await.unwrap();
        let got = run("read.py", place.queue.as_str()).await;
        let property = |name: &str| got["properties"][name].clone();
        assert_eq!((property("message_id"), property("type")), (json!("m"), json!("sample")));
        assert_eq!(
            (property("correlation_id"), property("delivery_mode")),
            (json!("c-7"), json!(2))
        );
        assert_eq!(property("timestamp"), 1_700_000_000);
        let expected = json!({
            "bezoar-time": ["long", 1_700_000_000_123_i64],
            "bezoar-headers": ["dict", { "x-delivery-count": ["str", "reserved"] }],
            "x-own": ["str", "visible"],
            "ward": ["str", "St. Mary's 🏥"],
        });
        assert_headers_kept(&json!({ "headers": expected }), &got);
        assert_eq!(got["body"], "Ym9keQ==", "`body` in base64");
        let worker = place.worker().await;
        settle(&*worker, one(&*worker).await, Settlement::Complete).await;
    }
}
