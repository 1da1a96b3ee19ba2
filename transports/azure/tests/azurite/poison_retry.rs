//! The poison-queue retry processor on Azure: what it reads and writes, and what happens when answers are lost.

use std::{sync::Arc, time::Duration};

use bezoar_azure::{AzurePoisonQueue, AzureTransport, ClaimCheck, Options, PoisonQueueSettings};
use bezoar_core::{
    Code, DeadLetter, Decision, Failure, FailureError, FailureKind, Ledger, QueueAdmin, QueueName,
    RetryPolicy, RetryStrategy, Rng,
    poison_retry::{PoisonQueue, PoisonRetryOptions, RetryFields},
};
use bezoar_runtime::{Context, PoisonRetry, PoisonRun};
use serde_json::{Value, json};
use tower::{BoxError, service_fn, util::BoxCloneSyncService};

use super::{
    faulty_proxy::{Fault, FaultyProxy},
    support::{
        Outside, dead, dead_letter, message, one, open, options, options_at, queue, send, settle,
        subscribe, text,
    },
};

/// What is posted. Clones are the same.
pub(crate) type Posted = Arc<std::sync::Mutex<Vec<String>>>;

/// Does what the body contains: `accept`, `reject`, `panic`, `hang`; refuses everything else.
pub(crate) fn endpoint(posted: Posted) -> BoxCloneSyncService<Context, (), BoxError> {
    BoxCloneSyncService::new(service_fn(move |context: Context| {
        let posted = posted.clone();
        async move {
            let body = text(&context.message);
            posted.lock().unwrap().push(body.clone());
            match ["accept", "reject", "panic", "hang"].iter().find(|word| body.contains(**word)) {
                Some(&"accept") => Ok(()),
                Some(&"panic") => panic!("the endpoint has a bug"),
                Some(&"hang") => std::future::pending().await,
                Some(_) => {
                    let failure = Failure::permanent("AR").with_code(Code::from_static("hl7.AR"));
                    Err(FailureError(failure).into())
                }
                None => {
                    let failure = Failure::new(FailureKind::ExternalService, "CANARY");
                    Err(FailureError(failure.with_code(Code::from_static("http.400"))).into())
                }
            }
        }
    }))
}

/// Waits as long as it is told.
#[derive(Debug)]
pub(crate) struct Delay(pub(crate) Duration);

impl RetryStrategy for Delay {
    fn decide(&self, ledger: &Ledger, failure: &Failure, random: &mut dyn Rng) -> Decision {
        let asked = RetryPolicy::jobs().with_max_retries(u32::MAX).decide(ledger, failure, random);
        match asked.verdict {
            bezoar_core::Verdict::DeadLetter => asked,
            _ => Decision::retry(ledger, self.0),
        }
    }

    fn largest_delay(&self) -> Duration {
        self.0
    }
}

struct Lab {
    name: QueueName,
    poison: Outside,
    dead: Outside,
    posted: Posted,
    processor: PoisonRetry,
    transport: AzureTransport,
}

impl Lab {
    async fn new(name: &str) -> Self {
        Self::with(name, options()).await
    }

    async fn with(name: &str, options: Options) -> Self {
        let name = queue(name).await;
        let (transport, posted) = (open(options), Posted::default());
        let access = transport.poison_queue(&name, RetryFields::default()).unwrap();
        let processor = processor(access, &posted).strategy(Delay(Duration::ZERO)).unwrap();
        let poison = Outside::queue(name.as_str());
        let dead = Outside::queue(&format!("{name}-poison"));
        Self { name, poison, dead, posted, processor, transport }
    }

    async fn run(&self) -> [u64; 4] {
        let run = self.processor.run_once().await.unwrap();
        counts(run)
    }

    async fn record(&self) -> Value {
        serde_json::from_str(&self.dead.texts().await.remove(0)).unwrap()
    }

    async fn dead(&self) -> Vec<DeadLetter> {
        dead(&self.transport, &self.name).await
    }
}

fn processor(access: AzurePoisonQueue, posted: &Posted) -> PoisonRetry {
    let options = PoisonRetryOptions {
        invisibility: Duration::from_secs(5),
        timeout: Duration::from_millis(500),
        ..PoisonRetryOptions::default()
    };
    PoisonRetry::new(Arc::new(access), options, endpoint(posted.clone())).unwrap()
}

fn counts(run: PoisonRun) -> [u64; 4] {
    [run.delivered, run.retried, run.dead_lettered, run.left]
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_refused_message_is_updated_in_place_and_its_other_fields_survive() {
    let lab = Lab::new("in-place").await;
    lab.poison.put("{ \"Patient\": \"x\",\t\"RetryCount\" : 0, \"Big\":1.50 }").await;
    for raised in 1..=3 {
        assert_eq!(lab.run().await, [0, 1, 0, 0]);
        let text = lab.poison.texts().await.remove(0);
        assert_eq!(
            text,
            format!("{{ \"Patient\": \"x\",\t\"RetryCount\" : {raised}, \"Big\":1.50 }}")
        );
    }
    assert_eq!(lab.run().await, [0, 0, 1, 0]);
    assert_eq!(lab.posted.lock().unwrap().len(), 3, "no fourth delivery");
    let record = lab.record().await;
    assert_eq!((&record["RetryCount"], &record["ErrorType"]), (&json!(3), &json!("exhausted")));
    assert_eq!(record["Bezoar"]["reason"], "max retries (3) exhausted");
    assert_eq!(lab.poison.count().await, 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_updated_message_has_a_new_pop_receipt_that_is_used_from_then_on() {
    let lab = Lab::new("receipt").await;
    lab.poison.put("MSH|").await;
    let access = lab.transport.poison_queue(&lab.name, RetryFields::default()).unwrap();
    let mut taken = access.take(std::num::NonZeroU32::MIN, Duration::from_secs(30)).await.unwrap();
    let message = &mut taken[0];
    let failure = Failure::transient("refused");
    let failed = bezoar_core::FailedTry::new(bezoar_core::millis(0), Duration::ZERO, &failure);
    for count in 1..=3 {
        message.retry(count, Duration::from_secs(30), &failed).await.unwrap();
    }
    message.delete(bezoar_core::poison_retry::PoisonEnd::Delivered).await.unwrap();
    assert_eq!(lab.poison.count().await, 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn records_of_the_transport_are_unwrapped_and_keep_why_they_failed() {
    let main = queue("unwrap").await;
    let transport = open(options());
    let sent = message("m-1", "the result").with_correlation_id("c-1".try_into().unwrap());
    send(&transport, &main, sent).await.unwrap();
    let subscription = subscribe(&transport, &main, 30).await;
    let held = one(&*subscription).await;
    settle(&*subscription, held, dead_letter("detail")).await.unwrap();

    let (name, posted) = (QueueName::new(format!("{main}-poison")).unwrap(), Posted::default());
    let access = transport.poison_queue(&name, RetryFields::default()).unwrap();
    let processor = processor(access, &posted).strategy(Delay(Duration::ZERO)).unwrap();
    for _ in 0..3 {
        assert_eq!(counts(processor.run_once().await.unwrap()), [0, 1, 0, 0]);
    }
    assert_eq!(counts(processor.run_once().await.unwrap()), [0, 0, 1, 0]);
    assert_eq!(*posted.lock().unwrap(), ["the result"; 3]);
    let letter = dead(&transport, &name).await.remove(0);
    assert_eq!(letter.reason.to_string(), "max retries (3) exhausted");
    assert_eq!((letter.message.id.as_str(), text(&letter.message).as_str()), ("m-1", "the result"));
    assert_eq!(letter.message.correlation_id.as_ref().unwrap().as_str(), "c-1");
    let codes: Vec<_> = letter.message.ledger.history().iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["http.500", "http.400", "http.400", "http.400"], "the whole history");

    let feed = transport.dead_letter_feed(&name).await.unwrap().unwrap();
    assert_eq!(feed.replay_all(1, Duration::from_secs(1)).await.unwrap(), 1);
    assert_eq!(counts(processor.run_once().await.unwrap()), [0, 1, 0, 0], "a replay starts at 0");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn what_cannot_be_decoded_is_dead_with_its_original_bytes() {
    let lab = Lab::new("undecodable").await;
    let bad = [
        r#"{"CorrelationId":"c-9","RetryCount":-1}"#,
        r#"{"RetryCount":"two"}"#,
        r#"{"RetryCount":1"#,
        r#"{"bezoar":1,"id":"m"}"#,
        r#"{"bezoar":9,"id":"m"}"#,
    ];
    for text in bad {
        lab.poison.put(text).await;
    }
    assert_eq!(lab.run().await, [0, 0, 5, 0]);
    let records: Vec<Value> =
        lab.dead.texts().await.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    for text in bad {
        let record = records.iter().find(|it| it["OriginalText"] == text).expect(text);
        assert_eq!(record["ErrorText"], "Failed to deserialize message");
        assert_eq!(record["ErrorType"], "undecodable");
    }
    assert!(records.iter().any(|it| it["CorrelationId"] == "c-9"));
    let letters = lab.dead().await;
    assert!(letters.iter().all(|it| it.reason.to_string() == "Failed to deserialize message"));
    assert!(lab.posted.lock().unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_message_of_64_kib_gets_its_attempts_and_ends() {
    let lab = Lab::new("full").await;
    let full = format!(r#"{{"a":"{}"}}"#, "x".repeat(64 * 1024 - 8));
    lab.poison.put(&full).await;
    for _ in 0..3 {
        assert_eq!(lab.run().await, [0, 1, 0, 0], "its count does not fit");
    }
    assert_eq!(lab.run().await, [0, 0, 1, 0]);
    assert_eq!(lab.posted.lock().unwrap().len(), 3);
    assert_eq!(lab.dead.texts().await, [full], "nor does a record");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn missing_queues_are_created() {
    let name = QueueName::new(format!("new-{:08x}-poison", rand::random::<u32>())).unwrap();
    let settings = PoisonQueueSettings {
        storage_connection: Some(
            test_support::azurite::Azurite::shared().connection_string().into(),
        ),
        poison_queue_name: Some(name.to_string()),
        ..PoisonQueueSettings::default()
    };
    let processor = processor(settings.open().unwrap(), &Posted::default());
    assert_eq!(processor.run_once().await.unwrap().taken, 0);
    let (poison, dead) = (Outside::queue(name.as_str()), Outside::queue(&format!("{name}-dead")));
    assert_eq!((poison.count().await, dead.count().await), (0, 0));
    dead.delete_queue().await;
    poison.put("{").await;
    assert_eq!(counts(processor.run_once().await.unwrap()), [0, 0, 1, 0]);
    assert_eq!(dead.count().await, 1, "created again when it was needed");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_missing_queue_that_must_not_be_created_fails_the_run() {
    let name = QueueName::new(format!("strict-{:08x}", rand::random::<u32>())).unwrap();
    let transport = open(Options { create_if_missing: false, ..options() });
    let access = transport.poison_queue(&name, RetryFields::default()).unwrap();
    let failed = processor(access, &Posted::default()).run_once().await.unwrap_err();
    assert_eq!(failed.source.kind, bezoar_core::ErrorKind::QueueNotFound(name));
}

#[test]
fn missing_settings_are_named_to_the_letter() {
    let refused = |settings: PoisonQueueSettings| settings.open().unwrap_err().to_string();
    assert_eq!(
        refused(PoisonQueueSettings::default()),
        "missing required configuration settings: storage_connection, poison_queue_name"
    );
    let named = |name: &str| PoisonQueueSettings {
        poison_queue_name: Some(name.to_owned()),
        ..PoisonQueueSettings::default()
    };
    assert_eq!(
        refused(named("results-poison")),
        "missing required configuration settings: storage_connection"
    );
    let mut settings = named(" ");
    settings.storage_connection = Some("UseDevelopmentStorage=true".to_owned().into());
    assert_eq!(
        refused(settings.clone()),
        "missing required configuration settings: poison_queue_name"
    );
    settings.poison_queue_name = Some("Not Valid".to_owned());
    assert!(refused(settings.clone()).contains("queue name"));
    settings.poison_queue_name = Some("results-poison".to_owned());
    settings.open().unwrap();
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn lost_answers_lose_no_message_and_count_nothing_twice() {
    for (text, request, expected, poison, dead) in [
        ("accept", "DELETE", [1, 0, 0, 0], 0, 0),
        ("refuse", "PUT", [0, 0, 0, 1], 1, 0), // the update took effect, and its receipt is lost
        ("{", "DELETE", [0, 0, 1, 0], 0, 1),
        ("{", "POST", [0, 0, 1, 0], 0, 2),
    ] {
        let proxy = FaultyProxy::start().await;
        let lab = Lab::with("lost", options_at(&proxy.connection_string())).await;
        lab.poison.put(text).await;
        proxy.hit(request, 1, Fault::LoseAnswer);
        assert_eq!(lab.run().await, expected, "{text} {request}");
        assert_eq!(lab.poison.count().await, poison, "{text} {request}");
        assert_eq!(lab.dead.count().await, dead, "{text} {request}");
        if dead > 0 {
            assert_eq!(lab.dead().await.len(), 1, "copies are one letter");
        }
        if poison > 0 {
            let text = lab.poison.texts().await.remove(0);
            assert!(text.contains(r#""RetryCount":1"#), "{text}");
        }
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_message_stays_while_its_dead_letter_cannot_be_stored() {
    let proxy = FaultyProxy::start().await;
    let lab = Lab::with("unstored", options_at(&proxy.connection_string())).await;
    lab.poison.put("{").await;
    lab.poison.put("accept").await;
    proxy.hit("POST", 100, Fault::Answer(403, "AuthorizationFailure", String::new()));
    assert_eq!(lab.run().await, [1, 0, 0, 1], "and does not stop the other");
    assert_eq!((lab.poison.count().await, lab.dead.count().await), (1, 0));
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_busy_account_delays_a_change_and_loses_nothing() {
    let proxy = FaultyProxy::start().await;
    let lab = Lab::with("busy", options_at(&proxy.connection_string())).await;
    lab.poison.put("accept").await;
    proxy.hit("DELETE", 2, Fault::Answer(503, "ServerBusy", String::new()));
    assert_eq!(lab.run().await, [1, 0, 0, 0]);
    assert_eq!(lab.poison.count().await, 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn bodies_in_blob_storage_are_delivered_kept_and_deleted() {
    let container = format!("poison-retry-{:08x}", rand::random::<u32>());
    let claim_check = ClaimCheck { container, ..ClaimCheck::default() };
    let options = Options { claim_check: Some(claim_check), ..options() };
    let main = queue("claim").await;
    let transport = open(options.clone());
    let name = QueueName::new(format!("{main}-poison")).unwrap();
    let posted = Posted::default();
    let access = transport.poison_queue(&name, RetryFields::default()).unwrap();
    let processor = processor(access, &posted).strategy(Delay(Duration::ZERO)).unwrap();
    for word in ["accept", "refuse"] {
        let body = format!("{word} {}", "x".repeat(100_000));
        send(&transport, &main, message(word, body.clone())).await.unwrap();
        let subscription = subscribe(&transport, &main, 30).await;
        let held = one(&*subscription).await;
        settle(&*subscription, held, dead_letter("detail")).await.unwrap();
    }
    assert_eq!(counts(processor.run_once().await.unwrap()), [1, 1, 0, 0]);
    for _ in 0..2 {
        assert_eq!(counts(processor.run_once().await.unwrap()), [0, 1, 0, 0]);
    }
    assert_eq!(counts(processor.run_once().await.unwrap()), [0, 0, 1, 0]);
    assert!(posted.lock().unwrap().iter().all(|it| it.len() == 100_007), "whole bodies");
    assert_eq!(transport.remove_orphans(Duration::ZERO).await.unwrap(), 0, "one deleted, one kept");
    let letter = dead(&transport, &name).await.remove(0);
    assert_eq!(letter.message.body.len(), 100_007);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_message_whose_body_is_gone_is_dead_with_that_reason() {
    let claim_check = Some(ClaimCheck::default());
    let lab = Lab::with("gone", Options { claim_check, ..options() }).await;
    lab.transport.provision(&lab.name).await.unwrap();
    let digest = "0".repeat(64);
    let blob = json!({ "name": format!("{:032x}-{digest}", 1), "size": 3, "sha256": digest });
    let envelope = json!({ "bezoar": 1, "id": "m", "type": "t", "time": 0, "blob": blob });
    let envelope = envelope.to_string();
    lab.poison.put(&envelope).await;
    assert_eq!(lab.run().await, [0, 0, 1, 0]);
    assert!(lab.posted.lock().unwrap().is_empty(), "nothing is posted without its body");
    let record = lab.record().await;
    assert_eq!(record["Bezoar"]["code"], "body-missing");
    assert_eq!(record["OriginalText"], envelope);
}
