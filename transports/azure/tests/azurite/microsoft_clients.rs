//! Microsoft's clients for Python and Node, as programs use them beside ours: we read what they write, and they read what
//! we write.
//!
//! `BEZOAR_TEST_AZURE_PYTHON` is a Python interpreter with azure-storage-queue, `BEZOAR_TEST_AZURE_NODE` a folder in which
//! `npm install @azure/storage-queue` ran.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use bezoar_core::Settlement;
use serde_json::{Value, json};
use test_support::azurite::Azurite;
use tokio::process::Command;

use super::support::{
    dead_letter, message, one, open, options, queue, retry, send, settle, subscribe, text,
};

#[derive(Clone, Copy)]
pub(crate) enum Client {
    Python,
    Node,
}

impl Client {
    fn command(self, script: &str) -> Command {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        match self {
            Self::Python => {
                let mut command = Command::new(variable("BEZOAR_TEST_AZURE_PYTHON"));
                // -B keeps `__pycache__` out of the sources.
                command.arg("-B").arg(tests.join("python").join(script).with_extension("py"));
                command
            }
            Self::Node => {
                let modules = PathBuf::from(variable("BEZOAR_TEST_AZURE_NODE"));
                let mut command = Command::new("node");
                command.env("NODE_PATH", modules.join("node_modules"));
                command.arg(tests.join("node").join(script).with_extension("js"));
                command
            }
        }
    }

    /// Runs a script on a queue; returns the JSON that it prints.
    pub(crate) async fn run(self, script: &str, queue: &str) -> Value {
        let account = Azurite::shared().connection_string();
        let mut command = self.command(script);
        command.args([account.as_str(), queue]).kill_on_drop(true);
        let done = command.output().await.unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is not set"))
}

async fn we_read_what_it_writes(client: Client) {
    let (queue, transport) = (queue("from-client").await, open(options()));
    let sent = client.run("send", queue.as_str()).await;
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

async fn it_reads_what_we_write(client: Client) {
    let (queue, transport) = (queue("to-client").await, open(options()));
    let sent = message("m-1", "14.1 g/dL é").with_header("tenant", "St. Mary's <&>\r\n🏥");
    send(&transport, &queue, sent).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    let held = one(&*subscription).await;
    settle(&*subscription, held, retry("no room")).await.unwrap();
    let seen = client.run("peek", queue.as_str()).await;
    assert_eq!((&seen["id"], &seen["body"]), (&json!("m-1"), &json!("14.1 g/dL é")));
    assert_eq!(seen["envelope"]["headers"]["tenant"], "St. Mary's <&>\r\n🏥");
    assert_eq!(seen["envelope"]["ledger"]["failed"], 1);
    assert_eq!(seen["expires"], 9999);
    let held = one(&*subscription).await;
    settle(&*subscription, held, dead_letter("no room")).await.unwrap();
    let record = client.run("peek_poison", &format!("{queue}-poison")).await;
    assert_eq!(
        (&record["ErrorType"], &record["ErrorText"]),
        (&json!("http.500"), &json!("no room"))
    );
    let original: Value = serde_json::from_str(record["OriginalText"].as_str().unwrap()).unwrap();
    assert_eq!(original["body"], seen["envelope"]["body"]);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn we_read_what_python_writes_plain_and_in_base64() {
    we_read_what_it_writes(Client::Python).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn python_reads_what_we_write_also_after_a_retry_and_in_the_poison_queue() {
    it_reads_what_we_write(Client::Python).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and @azure/storage-queue in BEZOAR_TEST_AZURE_NODE; `cargo xtask test` has both"]
async fn we_read_what_node_writes_plain_and_in_base64() {
    we_read_what_it_writes(Client::Node).await;
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and @azure/storage-queue in BEZOAR_TEST_AZURE_NODE; `cargo xtask test` has both"]
async fn node_reads_what_we_write_also_after_a_retry_and_in_the_poison_queue() {
    it_reads_what_we_write(Client::Node).await;
}
