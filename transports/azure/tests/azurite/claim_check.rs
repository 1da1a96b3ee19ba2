//! Large bodies in Blob Storage: there as long as their messages, and never altered unnoticed.

use std::{num::NonZeroU32, time::Duration};

use bezoar_azure::{ClaimCheck, Options};
use bezoar_core::{ErrorKind, QueueAdmin, QueueName, Settlement, SubscribeOptions, Transport};
use test_support::azurite::Azurite;

use super::{
    faulty_proxy::{Fault, FaultyProxy},
    support::{
        Outside, PATIENCE, dead, dead_letter, message, one, open, options, options_at, queue,
        retry, sas, sas_connection_string, send, settle, subscribe,
    },
};

const LARGE: usize = 200_000;

/// A blob container as other programs see it.
struct Container {
    name: String,
    http: reqwest::Client,
}

impl Container {
    fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let name = format!("bodies-{:08x}", rand::random::<u32>());
        Self { name, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    fn options(&self, options: Options) -> Options {
        let claim_check = ClaimCheck { container: self.name.clone(), ..ClaimCheck::default() };
        Options { claim_check: Some(claim_check), ..options }
    }

    fn url(&self, blob: &str, query: &str) -> String {
        let (azurite, sas) = (Azurite::shared(), sas("rwdlacup", "2099-01-01"));
        let (port, account) = (azurite.blob_port(), azurite.account());
        format!("http://127.0.0.1:{port}/{account}/{}{blob}?{query}{sas}", self.name)
    }

    async fn blobs(&self) -> Vec<String> {
        let url = self.url("", "restype=container&comp=list&");
        let list = self.http.get(url).send().await.unwrap().text().await.unwrap();
        let names = list.split("<Name>").skip(1);
        names.map(|it| it.split_once("</Name>").unwrap().0.to_owned()).collect()
    }

    async fn overwrite(&self, blob: &str) {
        let request = self.http.put(self.url(&format!("/{blob}"), ""));
        let request = request.header("x-ms-blob-type", "BlockBlob").body("something else");
        assert!(request.send().await.unwrap().status().is_success());
    }

    async fn create(&self) {
        let request = self.http.put(self.url("", "restype=container&"));
        assert!(request.send().await.unwrap().status().is_success());
    }

    /// The version of a blob and its metadata, and whether it is marked as the body of a dead letter.
    async fn version(&self, blob: &str) -> (String, bool) {
        let answer = self.http.head(self.url(&format!("/{blob}"), "")).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        (etag, answer.headers().contains_key("x-ms-meta-dead"))
    }

    async fn delete(&self, blob: &str) {
        let request = self.http.delete(self.url(&format!("/{blob}"), ""));
        assert!(request.send().await.unwrap().status().is_success());
    }
}

/// The account, with Blob Storage behind this port.
fn account_with_blobs_at(port: u16) -> String {
    let reachable = format!("BlobEndpoint=http://127.0.0.1:{}", Azurite::shared().blob_port());
    let there = format!("BlobEndpoint=http://127.0.0.1:{port}");
    Azurite::shared().connection_string().replace(&reachable, &there)
}

fn large() -> Vec<u8> {
    (0..=250).cycle().take(LARGE).collect()
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_large_body_comes_back_and_is_deleted_with_its_message() {
    let (queue, container) = (queue("claim").await, Container::new());
    let transport = open(container.options(options()));
    transport.provision(&queue).await.unwrap();
    send(&transport, &queue, message("small", "small")).await.unwrap();
    assert_eq!(container.blobs().await.len(), 0, "what fits stays in its message");
    let subscription = subscribe(&transport, &queue, 30).await;
    settle(&*subscription, one(&*subscription).await, Settlement::Complete).await.unwrap();
    send(&transport, &queue, message("large", large())).await.unwrap();
    assert_eq!(container.blobs().await.len(), 1);
    for failed in 0..2 {
        let held = one(&*subscription).await;
        assert!(held.message.body == large().into());
        assert_eq!(held.message.ledger.failed, failed);
        settle(&*subscription, held, retry("no room")).await.unwrap();
    }
    settle(&*subscription, one(&*subscription).await, Settlement::Complete).await.unwrap();
    assert_eq!(container.blobs().await.len(), 0, "deleted with its message");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_large_body_is_kept_while_its_message_is_dead_and_replayed_with_it() {
    let (queue, container) = (queue("dead-claim").await, Container::new());
    let transport = open(container.options(options()));
    send(&transport, &queue, message("large", large())).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    settle(&*subscription, one(&*subscription).await, dead_letter("no room")).await.unwrap();
    assert_eq!(transport.remove_orphans(Duration::ZERO).await.unwrap(), 0, "it is no orphan");
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().remove(0);
    assert!(letter.message.body == large().into());
    feed.replay(std::slice::from_ref(&letter.message)).await.remove(0).unwrap();
    feed.remove(&[letter.id]).await.unwrap();
    assert_eq!(container.blobs().await.len(), 1, "that of the replayed message");
    let held = one(&*subscription).await;
    assert!(held.message.body == large().into());
    settle(&*subscription, held, Settlement::Complete).await.unwrap();
    assert_eq!(container.blobs().await.len(), 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_missing_or_altered_body_is_a_reason_to_dead_letter() {
    for (is_missing, code) in [(true, "body-missing"), (false, "damaged")] {
        let (queue, container) = (queue("lost-claim").await, Container::new());
        let transport = open(container.options(options()));
        send(&transport, &queue, message("large", large())).await.unwrap();
        let blob = container.blobs().await.remove(0);
        match is_missing {
            true => container.delete(&blob).await,
            false => container.overwrite(&blob).await,
        }
        send(&transport, &queue, message("healthy", "healthy")).await.unwrap();
        let subscription = subscribe(&transport, &queue, 30).await;
        let held = one(&*subscription).await;
        assert_eq!(held.message.id.as_str(), "healthy", "it holds up nobody");
        settle(&*subscription, held, Settlement::Complete).await.unwrap();
        subscription.close().await.unwrap();
        let letter = dead(&transport, &queue).await.remove(0);
        assert_eq!((letter.message.id.as_str(), letter.reason.code().as_str()), ("large", code));
        assert_eq!(letter.message.ledger.acquired, 1, "its ledger is kept");
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn an_outage_of_blob_storage_uses_up_nothing() {
    let (queue, container) = (queue("blob-outage").await, Container::new());
    let transport = open(container.options(options()));
    send(&transport, &queue, message("large", large())).await.unwrap();
    let mut cut_off = options_at(&account_with_blobs_at(9));
    cut_off.limits.longest_poll = Duration::from_secs(1);
    let cut_off = open(container.options(cut_off));
    let refused = send(&cut_off, &queue, message("m", large())).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    let subscription = subscribe(&cut_off, &queue, 30).await;
    for _ in 0..3 {
        let error = subscription.receive(NonZeroU32::MIN, PATIENCE).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
    }
    subscription.close().await.unwrap();
    let held = one(&*subscribe(&transport, &queue, 30).await).await;
    let ledger = &held.message.ledger;
    assert_eq!((ledger.acquired, ledger.failed, ledger.without_outcome()), (4, 0, 1));
    assert!(held.message.body == large().into());
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_silent_blob_storage_holds_up_no_other_message() {
    let (queue, container) = (queue("blob-silent").await, Container::new());
    let transport = open(container.options(options()));
    send(&transport, &queue, message("large", large())).await.unwrap();
    send(&transport, &queue, message("small", "small")).await.unwrap();
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let account = account_with_blobs_at(silent.local_addr().unwrap().port());
    let cut_off = open(container.options(options_at(&account)));
    let subscription = subscribe(&cut_off, &queue, 4).await;
    let both = NonZeroU32::new(2).unwrap();
    let some = subscription.receive(both, PATIENCE).await.unwrap();
    let ids: Vec<_> = some.iter().map(|it| it.message.id.as_str()).collect();
    assert_eq!(ids, ["small"]);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_message_whose_body_cannot_be_reached_is_not_delivered_without_it() {
    let (queue, container) = (queue("blob-unknown").await, Container::new());
    let transport = open(container.options(options()));
    send(&transport, &queue, message("large", large())).await.unwrap();
    // It has no blob endpoint.
    let account = sas_connection_string(&sas("raup", "2099-01-01"));
    let subscription = subscribe(&open(options_at(&account)), &queue, 30).await;
    let error = subscription.receive(NonZeroU32::MIN, PATIENCE).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("has no blob endpoint"), "{source}");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn orphans_are_removed_after_an_age() {
    let container = Container::new();
    let transport = open(container.options(options()));
    let missing = QueueName::new("no-such-queue").unwrap();
    let provisioned = queue("orphans").await;
    send(&transport, &provisioned, message("large", large())).await.unwrap();
    let refused = send(&transport, &missing, message("large", large())).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::QueueNotFound(missing));
    assert_eq!(container.blobs().await.len(), 1, "a refused message leaves no body behind");
    Outside::queue(provisioned.as_str()).delete_queue().await;
    assert_eq!(transport.remove_orphans(Duration::from_secs(3_600)).await.unwrap(), 0);
    tokio::time::sleep(Duration::from_secs(2)).await; // Azure keeps whole seconds
    assert_eq!(transport.remove_orphans(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(container.blobs().await.len(), 0);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn bodies_that_do_not_fit_into_memory_are_left_to_later() {
    let (queue, container) = (queue("memory").await, Container::new());
    let transport = open(container.options(options()));
    for id in ["a", "b", "c"] {
        send(&transport, &queue, message(id, large())).await.unwrap();
    }
    let options = SubscribeOptions::default().with_max_bytes(LARGE + LARGE / 2);
    let subscription = transport.subscribe(&queue, options).await.unwrap();
    let mut ids = Vec::new();
    while ids.len() < 3 {
        let some = subscription.receive(NonZeroU32::MAX, PATIENCE).await.unwrap();
        assert_eq!(some.len(), 1, "two bodies are too many");
        for held in some {
            assert_eq!(held.message.ledger.without_outcome(), 1, "waiting uses up nothing");
            ids.push(held.message.id.to_string());
            settle(&*subscription, held, Settlement::Complete).await.unwrap();
        }
    }
    ids.sort();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_body_is_found_whatever_container_the_receiver_uses() {
    let (queue, container, other) = (queue("container").await, Container::new(), Container::new());
    let sender = open(container.options(options()));
    for receiver in [open(other.options(options())), open(options())] {
        send(&sender, &queue, message("large", large())).await.unwrap();
        let subscription = subscribe(&receiver, &queue, 30).await;
        let held = one(&*subscription).await;
        assert!(held.message.body == large().into());
        settle(&*subscription, held, Settlement::Complete).await.unwrap();
        assert_eq!(container.blobs().await.len(), 0, "deleted where it was");
    }
}

/// Whoever may only write to the queue could otherwise have us mark a blob that is somebody else's.
#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_reference_to_a_blob_of_others_changes_nothing() {
    let (queue, container, theirs) = (queue("theirs").await, Container::new(), Container::new());
    theirs.create().await;
    let number = "0123456789abcdef0123456789abcdef";
    theirs.overwrite(number).await;
    let before = theirs.version(number).await;
    let mut options = container.options(options());
    options.limits.max_dequeue_count = 1;
    let transport = open(options);
    let outside = Outside::queue(queue.as_str());
    for version in [1, 2] {
        let blob = format!(
            r#"{{"container":"{}","name":"{number}","size":14,"sha256":"{}"}}"#,
            theirs.name,
            "0".repeat(64)
        );
        let envelope = r#""id":"m","type":"t","time":0,"blob""#;
        outside.put(&format!(r#"{{"bezoar":{version},{envelope}:{blob}}}"#)).await;
    }
    let subscription = subscribe(&transport, &queue, 1).await;
    while outside.count().await > 0 {
        let wait = Duration::from_secs(1);
        assert!(subscription.receive(NonZeroU32::MIN, wait).await.unwrap().is_empty());
    }
    subscription.close().await.unwrap();
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    let letters = feed.next(NonZeroU32::MAX, PATIENCE).await.unwrap();
    assert_eq!(letters.len(), 2, "both are dead");
    let ids: Vec<_> = letters.iter().map(|it| it.id).collect();
    feed.remove(&ids).await.unwrap();
    assert_eq!(theirs.version(number).await, before, "not marked, not deleted");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_body_is_kept_unless_azure_certainly_refused_its_message() {
    for (code, kind) in [
        ("", ErrorKind::OutcomeUnknown),
        ("ServerBusy", ErrorKind::Throttled { retry_after: None }),
    ] {
        let (queue, container) = (queue("kept").await, Container::new());
        let proxy = FaultyProxy::start().await;
        let transport = open(container.options(options_at(&proxy.connection_string())));
        proxy.hit("POST", 1, Fault::ReplaceAnswer(503, code));
        let error = send(&transport, &queue, message("large", large())).await.unwrap_err();
        assert_eq!(error.kind, kind, "{code}");
        let held = one(&*subscribe(&transport, &queue, 30).await).await;
        assert!(held.message.body == large().into(), "{code}: it was stored after all");
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_letter_whose_body_is_gone_is_not_replayed_until_it_has_one() {
    let (queue, container) = (queue("gone").await, Container::new());
    let transport = open(container.options(options()));
    send(&transport, &queue, message("large", large())).await.unwrap();
    let subscription = subscribe(&transport, &queue, 30).await;
    settle(&*subscription, one(&*subscription).await, dead_letter("no room")).await.unwrap();
    container.delete(&container.blobs().await.remove(0)).await;
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    let letter = feed.next(NonZeroU32::MIN, PATIENCE).await.unwrap().remove(0);
    assert_eq!(letter.message.id.as_str(), "large", "the rest of it is shown");
    let replayed = feed.replay(std::slice::from_ref(&letter.message)).await.remove(0);
    let refused = replayed.unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::Invalid(_)), "{refused}");
    assert!(refused.to_string().contains("missing in Blob Storage"), "{refused}");
    let depth = transport.depth(&queue).await.unwrap();
    assert_eq!((depth.total, depth.dead), (Some(0), Some(1)), "it stays dead");
    feed.replay(&[letter.message.with_body("written again")]).await.remove(0).unwrap();
    let held = one(&*subscription).await;
    assert_eq!(held.message.body, "written again".into());
    assert!(held.message.headers.is_empty(), "without a header of ours");
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_body_that_is_dead_lettered_meanwhile_is_no_orphan() {
    let (queue, container) = (queue("race").await, Container::new());
    let transport = open(container.options(options()));
    send(&transport, &queue, message("large", large())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await; // Azure keeps whole seconds
    let proxy = FaultyProxy::start_in_front_of(Azurite::shared().blob_port()).await;
    let cleaner = open(container.options(options_at(&account_with_blobs_at(proxy.port))));
    proxy.hit("DELETE", 1, Fault::Hold);
    let cleaning = tokio::spawn(async move { cleaner.remove_orphans(Duration::ZERO).await });
    proxy.until_hit(1).await;
    let subscription = subscribe(&transport, &queue, 30).await;
    settle(&*subscription, one(&*subscription).await, dead_letter("no room")).await.unwrap();
    proxy.release();
    assert_eq!(cleaning.await.unwrap().unwrap(), 0);
    assert!(dead(&transport, &queue).await[0].message.body == large().into());
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn bodies_of_letters_that_are_gone_are_orphans() {
    let (queue, container) = (queue("purged").await, Container::new());
    let transport = open(container.options(options()));
    let subscription = subscribe(&transport, &queue, 30).await;
    let poison = Outside::queue(&format!("{queue}-poison"));
    for is_deleted in [false, true] {
        send(&transport, &queue, message("large", large())).await.unwrap();
        settle(&*subscription, one(&*subscription).await, dead_letter("no room")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await; // Azure keeps whole seconds
        assert_eq!(transport.remove_orphans(Duration::ZERO).await.unwrap(), 0, "it has a letter");
        match is_deleted {
            true => poison.delete_queue().await,
            false => poison.remove_one().await,
        }
        let hour = Duration::from_secs(3_600);
        assert_eq!(transport.remove_orphans(hour).await.unwrap(), 0, "too new");
        assert_eq!(transport.remove_orphans(Duration::ZERO).await.unwrap(), 1);
        assert_eq!(container.blobs().await.len(), 0);
    }
}

#[tokio::test]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn a_missing_container_is_a_finding() {
    let (queue, container) = (queue("validate").await, Container::new());
    let transport = open(container.options(options()));
    let findings = transport.validate(&queue).await.unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].problem.contains(&container.name), "{findings:?}");
    transport.provision(&queue).await.unwrap();
    assert_eq!(transport.validate(&queue).await.unwrap(), []);
}
