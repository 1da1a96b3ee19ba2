//! `[[poison_retry]]` and `bezoar poison-retry`.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use test_support::azurite::Azurite;

use crate::{
    poison_endpoint::Endpoint,
    support::{client::Client, program::Program},
};

const PUT: &str = r"
import json, sys
from azure.storage.queue import QueueClient
client = QueueClient.from_connection_string(sys.argv[1], sys.argv[2])
for text in json.loads(sys.argv[3]):
    client.send_message(text)
print('[]')
";
const COUNT: &str = r"
import sys
from azure.storage.queue import QueueClient
client = QueueClient.from_connection_string(sys.argv[1], sys.argv[2])
print(client.get_queue_properties().approximate_message_count)
";

fn python(script: &str, arguments: &[&str]) -> Value {
    let python = std::env::var_os("BEZOAR_TEST_AZURE_PYTHON").expect("it is set");
    let done = Command::new(python).args(["-B", "-c", script]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

struct Lab {
    azurite: Azurite,
    endpoint: Endpoint,
    folder: tempfile::TempDir,
    program: Program,
    client: Client,
    poison: String,
}

impl Lab {
    fn start() -> Self {
        let (azurite, endpoint) = (Azurite::under_test().unwrap(), Endpoint::start());
        let folder = tempfile::tempdir().unwrap();
        let main = format!("results-{:08x}", rand::random::<u32>());
        let text = format!(
            r#"
            server.listen = "127.0.0.1:0"
            store.url = "sqlite:data/bezoar.db"
            [transports.lab]
            url = "azurequeue:"
            connection_string = "env:STORAGE"
            request_timeout = "2s"
            [[queue]]
            name = "lab/{main}"
            [[poison_retry]]
            queue = "lab/{main}-poison"
            to = "http://127.0.0.1:{}/hl7"
            every = "1h"
            timeout = "2s"
            "#,
            endpoint.port
        );
        std::fs::write(folder.path().join("bezoar.toml"), text).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
        command.arg("up").current_dir(folder.path()).env("STORAGE", azurite.connection_string());
        command.env_remove("RUST_LOG").env_remove("BEZOAR_CONFIG");
        let program = Program::start(&mut command);
        let client = Client::of_folder(program.address, &folder.path().join("data"));
        Self { azurite, endpoint, folder, program, client, poison: format!("{main}-poison") }
    }

    fn python(&self, script: &str, queue: &str, more: &[&str]) -> Value {
        let account = self.azurite.connection_string();
        python(script, &[&[account.as_str(), queue], more].concat())
    }

    fn bezoar(&self, arguments: &[&str]) -> Output {
        bezoar(&self.program, self.folder.path(), arguments)
    }

    async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let value = self.client.get(path).await.json();
                if fits(&value) {
                    return value;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::support::PATIENCE, looking).await.expect("it gets there")
    }
}

fn bezoar(program: &Program, folder: &Path, arguments: &[&str]) -> Output {
    let token = std::fs::read_to_string(folder.join("data/token")).unwrap();
    Command::new(assert_cmd::cargo::cargo_bin("bezoar"))
        .args(["--url", &format!("http://{}", program.address), "--token", token.trim()])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn a_poison_queue_is_delivered_again_and_its_dead_letters_are_in_the_catalogue() {
    let lab = Lab::start();
    let queue = format!("lab/{}", lab.poison);
    // The first run is at the start, on a queue that does not exist yet.
    let all = lab.until("/v1/poison-retries", |all| !all[0]["last_run"].is_null()).await;
    assert_eq!(all[0]["last_run"]["problem"], Value::Null, "{all}");
    assert_eq!(lab.python(COUNT, &lab.poison, &[]), 0, "it was created");

    let texts = json!([
        r#"{"Do":"accept","RetryCount":1,"CorrelationId":"c-1","x":"CANARY"}"#,
        r#"{"Do":"refuse","CorrelationId":"c-2","x":"CANARY"}"#,
        "hang up CANARY",
        r#"{"Do":"accept","RetryCount":3,"CorrelationId":"c-4","x":"CANARY"}"#,
        r#"{"Do":"accept CANARY"#,
    ]);
    lab.python(PUT, &lab.poison, &[&texts.to_string()]);
    let run = lab.bezoar(&["poison-retry", "run", &queue]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let expected = "5 taken, 1 delivered, 2 to be retried, 2 dead-lettered";
    assert_eq!(text(&run.stdout), format!("{queue}: {expected}"));
    assert_eq!(
        lab.endpoint.seen(),
        [
            "hang up CANARY",
            r#"{"Do":"accept","RetryCount":1,"CorrelationId":"c-1","x":"CANARY"}"#,
            r#"{"Do":"refuse","CorrelationId":"c-2","x":"CANARY"}"#,
        ]
    );
    assert_eq!(lab.python(COUNT, &lab.poison, &[]), 2, "those to be retried");

    let path = format!("/v1/dead-letters?queue={}", queue.replace('/', "%2F"));
    let has_both = |it: &Value| it["dead_letters"].as_array().is_some_and(|it| it.len() == 2);
    let dead = lab.until(&path, has_both).await;
    let mut reasons: Vec<_> = dead["dead_letters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["reason"].to_string())
        .collect();
    reasons.sort();
    assert!(reasons[0].contains("Failed to deserialize message"), "{dead}");
    assert!(reasons[1].contains("max retries (3) exhausted"), "{dead}");
    assert!(dead.to_string().contains("c-4"), "{dead}");
    assert_eq!(lab.python(COUNT, &format!("{}-dead", lab.poison), &[]), 0, "taken in");
    let main = queue.trim_end_matches("-poison").replace('/', "%2F");
    let of_main = lab.client.get(&format!("/v1/dead-letters?queue={main}")).await.json();
    assert_eq!(of_main["dead_letters"], json!([]), "what is worked on is not taken in");

    let again = lab.bezoar(&["poison-retry", "run", &queue, "--json"]);
    let counts: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&counts["taken"], &counts["queue"]), (&json!(0), &json!(queue)));
    let audit = lab.client.get("/v1/audit").await.json().to_string();
    assert!(audit.contains(&format!("poison retry of queue {queue}")), "{audit}");

    let unknown = lab.bezoar(&["poison-retry", "run", "lab/other"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains(&queue), "{}", text(&unknown.stderr));
    let said = lab.program.stop();
    assert!(said.status.success());
    assert!(said.stderr.contains("retry 1 of 3 in"), "{}", said.stderr);
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("CANARY"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_run_that_cannot_proceed_exits_with_1_and_is_an_error_in_the_log() {
    let lab = Lab::start();
    lab.until("/v1/poison-retries", |all| !all[0]["last_run"].is_null()).await;
    let Lab { azurite, endpoint: _endpoint, folder, program, poison, .. } = lab;
    drop(azurite);
    let run = bezoar(&program, folder.path(), &["poison-retry", "run", &format!("lab/{poison}")]);
    assert_eq!(run.status.code(), Some(1));
    let stderr = text(&run.stderr);
    assert!(stderr.contains("cannot take messages from the poison queue"), "{stderr}");
    let said = program.stop();
    let line = said.stderr.lines().find(|it| it.contains("poison retry cannot proceed"));
    assert!(line.is_some_and(|it| it.contains("ERROR")), "{}", said.stderr);
}
