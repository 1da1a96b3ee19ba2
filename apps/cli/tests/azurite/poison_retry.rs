//! `[[poison_retry]]` and `bezoar poison-retry`.

use std::{fs, process::Output};

use serde_json::{Value, json};
use test_support::azurite::Azurite;

use crate::{
    endpoint::Endpoint,
    lab::{Lab, python, reveal, until},
    receivers::Receivers,
    support::{client::Client, hl7_receivers::hl7, program::Program},
};

/// A gateway that works on the poison queue of its queue.
struct Processor {
    lab: Lab,
    program: Program,
    client: Client,
}

impl Processor {
    /// `keys` are keys of `[[poison_retry]]`. Returns after the first run, which is at the start.
    async fn start(account: String, keys: &str) -> Self {
        let table = format!(
            "[[queue]]\nname = \"lab/QUEUE\"\n[[poison_retry]]\nqueue = \"lab/QUEUE-poison\"\n\
             every = \"1h\"\ntimeout = \"2s\"\n{keys}"
        );
        let lab = Lab::at(account, "request_timeout = \"2s\"", &table);
        let (program, client) = lab.up();
        let has_run = |all: &Value| !all["items"][0]["last_run"].is_null();
        let all = until(&client, "/v1/poison-retries", has_run).await;
        assert_eq!(all["items"][0]["last_run"]["problem"], Value::Null, "{all}");
        Self { lab, program, client }
    }

    async fn on_shared_azurite(keys: &str) -> Self {
        Self::start(Azurite::shared().connection_string(), keys).await
    }

    /// The poison queue in the gateway.
    fn queue(&self) -> String {
        format!("lab/{}", self.lab.poison())
    }

    fn count(&self, queue: &str) -> Value {
        python("count", queue, &[])
    }

    /// `bezoar poison-retry run`.
    fn run(&self, queue: &str, more: &[&str]) -> Output {
        let url = format!("http://{}", self.program.address);
        let arguments = [&["run", queue, "--url", &url], more].concat();
        self.lab.output("poison-retry", &arguments)
    }

    /// The dead letters of the poison queue, as soon as there are so many.
    async fn dead_letters(&self, count: usize) -> Vec<Value> {
        let path = format!("/v1/dead-letters?queue={}", self.queue().replace('/', "%2F"));
        let has_all = |it: &Value| it["items"].as_array().unwrap().len() == count;
        let listed = until(&self.client, &path, has_all).await;
        listed["items"].as_array().unwrap().clone()
    }

    /// The value of a metric of this processor.
    async fn metric(&self, name: &str, label: &str) -> Option<f64> {
        let text = self.client.get("/metrics").await.body;
        let text = String::from_utf8(text.to_vec()).unwrap();
        let series = format!("bezoar_poison_retry_{name}{{");
        let line = text.lines().find(|it| it.starts_with(&series) && it.contains(label))?;
        assert!(line.contains(&format!("queue=\"{}\"", self.queue())), "{line}");
        line.rsplit(' ').next()?.parse().ok()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn a_poison_queue_is_delivered_again_and_its_dead_letters_are_in_the_catalogue() {
    let endpoint = Endpoint::start().await;
    let to = format!("to = \"http://127.0.0.1:{}/hl7\"", endpoint.port);
    let it = Processor::on_shared_azurite(&to).await;
    assert_eq!(it.count(&it.lab.poison()), 0, "the first run has created it");

    let texts = [
        r#"{"Do":"accept","RetryCount":1,"CorrelationId":"c-1","x":"CANARY"}"#,
        r#"{"Do":"refuse","CorrelationId":"c-2","x":"CANARY"}"#,
        "hang up CANARY",
        r#"{"Do":"accept","RetryCount":3,"CorrelationId":"c-4","x":"CANARY"}"#,
        r#"{"Do":"accept CANARY"#,
    ];
    python("send", &it.lab.poison(), &texts);
    let run = it.run(&it.queue(), &[]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let expected = "5 taken, 1 delivered, 2 to be retried, 2 dead-lettered";
    assert_eq!(text(&run.stdout), format!("{}: {expected}", it.queue()));
    let mut seen: Vec<_> = endpoint.begun().iter().map(|it| text(&it.body)).collect();
    seen.sort();
    assert_eq!(seen, [texts[2], texts[0], texts[1]]);
    assert_eq!(it.count(&it.lab.poison()), 2, "those to be retried");

    let dead = it.dead_letters(2).await;
    let mut reasons: Vec<_> = dead.iter().map(|it| it["reason"].to_string()).collect();
    reasons.sort();
    assert!(reasons[0].contains("Failed to deserialize message"), "{dead:?}");
    assert!(reasons[1].contains("max retries (3) exhausted"), "{dead:?}");
    assert!(json!(dead).to_string().contains("c-4"), "{dead:?}");
    assert_eq!(it.count(&format!("{}-dead", it.lab.poison())), 0, "taken in");
    let of_main = format!("/v1/dead-letters?queue={}", it.lab.name().replace('/', "%2F"));
    let of_main = it.client.get(&of_main).await.json();
    assert_eq!(of_main["items"], json!([]), "what is worked on is not taken in");

    let again = it.run(&it.queue(), &["--json"]);
    let counts: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&counts["taken"], &counts["queue"]), (&json!(0), &json!(it.queue())));
    let audit = it.client.get("/v1/audit").await.json().to_string();
    assert!(audit.contains(&format!("poison retry of queue {}", it.queue())), "{audit}");
    assert_eq!(it.metric("runs_total", r#"result="ok""#).await, Some(3.0));
    for (outcome, count) in [("delivered", 1.0), ("retried", 2.0), ("dead_lettered", 2.0)] {
        let label = format!("outcome={outcome:?}");
        assert_eq!(it.metric("messages_total", &label).await, Some(count), "{outcome}");
    }
    assert_eq!(it.metric("last_run_ok", "").await, Some(1.0));
    assert_eq!(it.metric("duration_seconds_count", r#"result="ok""#).await, Some(3.0));
    let succeeded = it.metric("last_success_time_seconds", "").await;
    assert_eq!(succeeded, it.metric("last_run_time_seconds", "").await);

    let unknown = it.run("lab/other", &[]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains(&it.queue()), "{}", text(&unknown.stderr));
    let said = it.program.stop();
    assert!(said.status.success());
    assert!(said.stderr.contains("retry 1 of 3 in"), "{}", said.stderr);
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("CANARY"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_run_that_cannot_proceed_exits_with_1_and_is_an_error_in_the_log() {
    let azurite = Azurite::under_test().unwrap();
    let it = Processor::start(azurite.connection_string(), "to = \"http://127.0.0.1:1/\"").await;
    drop(azurite);
    let run = it.run(&it.queue(), &[]);
    assert_eq!(run.status.code(), Some(1));
    let stderr = text(&run.stderr);
    assert!(stderr.contains("cannot take messages from the poison queue"), "{stderr}");
    assert_eq!(it.metric("runs_total", r#"result="failed""#).await, Some(1.0));
    assert_eq!(it.metric("last_run_ok", "").await, Some(0.0));
    let succeeded = it.metric("last_success_time_seconds", "").await;
    assert!(succeeded < it.metric("last_run_time_seconds", "").await, "{succeeded:?}");
    let said = it.program.stop();
    let line = said.stderr.lines().find(|it| it.contains("poison retry cannot proceed"));
    assert!(line.is_some_and(|it| it.contains("ERROR")), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn acknowledgements_decide_about_hl7_messages_over_http() {
    check_acknowledgements(Receivers::ours(), over_http).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn acknowledgements_decide_about_hl7_messages_over_mllp() {
    check_acknowledgements(Receivers::ours(), over_mllp).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE, azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON and hl7 in BEZOAR_TEST_HL7; `cargo xtask test` has them"]
async fn acknowledgements_of_another_library_decide_about_hl7_messages() {
    check_acknowledgements(Receivers::in_python(), over_http).await;
    check_acknowledgements(Receivers::in_python(), over_mllp).await;
}

fn over_http(receivers: &Receivers) -> String {
    format!("to = \"http://127.0.0.1:{}/hl7\"\nack = \"hl7\"", receivers.http)
}

fn over_mllp(receivers: &Receivers) -> String {
    format!("to = \"mllp://127.0.0.1:{}\"", receivers.mllp)
}

/// `AA` deletes, `AE`, a foreign acknowledgement and none are retries, `AR` and a message without `MSH` are dead letters.
async fn check_acknowledgements(receivers: Receivers, keys: fn(&Receivers) -> String) {
    const NOT_HL7: &str = "CANARY is no HL7";
    let it = Processor::on_shared_azurite(&keys(&receivers)).await;
    let words = ["accept", "error", "foreign", "silent", "reject"];
    let texts = words.map(|word| hl7(&format!("id-{word}"), word));
    let texts: Vec<_> = texts.iter().map(String::as_str).chain([NOT_HL7]).collect();
    python("send64", &it.lab.poison(), &texts);
    let run = it.run(&it.queue(), &[]);
    let expected = "6 taken, 1 delivered, 3 to be retried, 2 dead-lettered";
    assert_eq!(text(&run.stdout), format!("{}: {expected}", it.queue()));
    assert_eq!(it.count(&it.lab.poison()), 3, "those to be retried");
    let dead = it.dead_letters(2).await;
    let of = |code: &str| dead.iter().find(|it| it["error"]["code"] == code).unwrap();
    assert_eq!(reveal(&it.client, of("hl7.ar")).await, texts[4].as_bytes());
    assert_eq!(reveal(&it.client, of("hl7.no-msh")).await, NOT_HL7.as_bytes());
    let said = it.program.stop();
    let mut seen = receivers.seen();
    seen.sort();
    assert_eq!(seen, ["id-accept", "id-error", "id-foreign", "id-reject", "id-silent"]);
    for code in ["hl7.ae", "hl7.wrong-control-id", "hl7.no-ack"] {
        let retried = |it: &&str| it.contains("retry 1 of 3") && it.contains(code);
        assert_eq!(said.stderr.lines().filter(retried).count(), 1, "{code}: {}", said.stderr);
    }
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("CANARY"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE and azure-storage-queue in BEZOAR_TEST_AZURE_PYTHON; `cargo xtask test` has both"]
async fn a_reload_changes_a_processor_and_leaves_the_rest_to_a_restart() {
    let (old, new) = (Endpoint::start().await, Endpoint::start().await);
    let to = |endpoint: &Endpoint| format!("to = \"http://127.0.0.1:{}/\"", endpoint.port);
    let it = Processor::on_shared_azurite(&to(&old)).await;
    python("send", &it.lab.poison(), &["before"]);
    assert!(it.run(&it.queue(), &[]).status.success());

    let file = it.lab.folder.path().join("bezoar.toml");
    let config = fs::read_to_string(&file).unwrap();
    let config = config.replace(&to(&old), &to(&new)).replace("every = \"1h\"", "every = \"1s\"");
    fs::write(&file, config + "dead_letter = \"lab/elsewhere\"\n").unwrap();
    it.program.reload();
    until(&it.client, "/v1/poison-retries", |all| all["items"][0]["every_seconds"] == 1.0).await;
    python("send", &it.lab.poison(), &["after", "{ broken"]);
    new.until(|all| all.len() == 1).await;
    it.dead_letters(1).await; // through the queue that it had before
    let bodies = |it: &Endpoint| it.arrivals().iter().map(|it| text(&it.body)).collect::<Vec<_>>();
    assert_eq!([bodies(&old), bodies(&new)], [["before"], ["after"]]);
    let said = it.program.stop().stderr;
    let line = said.lines().find(|it| it.contains("configuration reloaded")).unwrap();
    assert!(line.contains("poison_retries_changed=1"), "{line}");
    assert!(line.contains("needs_restart=\"poison_retry[].dead_letter\""), "{line}");
}
