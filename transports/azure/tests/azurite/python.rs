//! Microsoft's client for Python, as programs use it beside ours: we read what it writes, and it reads what we write.
//!
//! `BEZOAR_TEST_AZURE_PYTHON` is a Python interpreter with azure-storage-queue.

use std::{env, path::Path};

use bezoar_core::Settlement;
use serde_json::{Value, json};
use test_support::azurite::Azurite;
use tokio::process::Command;

use super::support::{
    dead_letter, message, one, open, options, queue, retry, send, settle, subscribe, text,
};

/// Runs a script of `tests/python` on a queue; returns the JSON that it prints.
async fn run(script: &str, queue: &str) -> Value {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let python = env::var_os("BEZOAR_TEST_AZURE_PYTHON").expect("BEZOAR_TEST_AZURE_PYTHON is set");
    // -B keeps `__pycache__` out of the sources.
    let mut command = Command::new(python);
    let account = Azurite::shared().connection_string();
    command.arg("-B").arg(scripts.join(script)).args([account.as_str(), queue]);
    let done = command.kill_on_drop(true).output().await.unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn we_read_what_python_writes_plain_and_in_base64() {
    let (queue, transport) = (queue("python").await, open(options()));
    let sent = run("send.py", queue.as_str()).await;
    let subscription = subscribe(&transport, &queue, 30).await;
    let mut bodies = Vec::new();
    for _ in 0..sent.as_array().unwrap().len() {
        let held = one(&*subscription).await;
        bodies.push(json!({ "id": held.message.id.as_str(), "body": text(&held.message) }));
        settle(&*subscription, held, Settlement::Complete).await.unwrap();
    }
    let by_id = |value: &Value| value["id"].to_string();
    bodies.sort_by_key(by_id);
    let mut sent = sent.as_array().unwrap().clone();
    sent.sort_by_key(by_id);
    assert_eq!(bodies, sent);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn python_reads_what_we_write_also_after_a_retry_and_in_the_poison_queue() {
    let (queue, transport) = (queue("to-python").await, open(options()));
    let sent = message("m-1", "14.1 g/dL é").with_header("tenant", "St. Mary's <&>\r\n🏥");
    send(&transport, &queue, sent).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    let held = one(&*subscription).await;
    settle(&*subscription, held, retry("no room")).await.unwrap();
    let seen = run("peek.py", queue.as_str()).await;
    assert_eq!((&seen["id"], &seen["body"]), (&json!("m-1"), &json!("14.1 g/dL é")));
    assert_eq!(seen["envelope"]["headers"]["tenant"], "St. Mary's <&>\r\n🏥");
    assert_eq!(seen["envelope"]["ledger"]["failed"], 1);
    assert_eq!(seen["expires"], 9999);
    let held = one(&*subscription).await;
    settle(&*subscription, held, dead_letter("no room")).await.unwrap();
    let record = run("peek_poison.py", &format!("{queue}-poison")).await;
    assert_eq!(
        (&record["ErrorType"], &record["ErrorText"]),
        (&json!("http.500"), &json!("no room"))
    );
    let original: Value = serde_json::from_str(record["OriginalText"].as_str().unwrap()).unwrap();
    assert_eq!(original["body"], seen["envelope"]["body"]);
}
