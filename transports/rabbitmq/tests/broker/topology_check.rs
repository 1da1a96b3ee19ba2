//! `validate` finds each fault of a queue on a real broker, and names its remedy. Each test is its own control: the same
//! queue has no such finding before it is broken.

use std::time::Duration;

use bezoar_core::{
    ErrorKind, Finding, Outgoing, QueueAdmin, Severity, SubscribeOptions, Transport,
};
use bezoar_rabbitmq::{DeadLettering, Options, QueueType, ReturnQueues};
use futures_util::future::join_all;
use lapin::{
    Channel, Connection, ExchangeKind,
    options::{
        ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};
use tokio::time::Instant;

use super::{
    support::{PATIENCE, Place, TYPES, message, one},
    vhost::Vhost,
};

/// A healthy queue in a virtual host of its own, and a channel to break it with.
struct CheckedQueue {
    vhost: Vhost,
    place: Place,
    channel: Channel,
    _connection: Connection,
}

impl CheckedQueue {
    async fn new(queue_type: QueueType) -> Self {
        Self::with(queue_type, |options| options).await
    }

    async fn with(queue_type: QueueType, change: impl FnOnce(Options) -> Options) -> Self {
        let vhost = Vhost::new().await;
        let place = Place::with(change(vhost.options(queue_type))).await;
        let (_connection, channel) = vhost.channel().await;
        let checked = Self { vhost, place, channel, _connection };
        let sound = checked.findings().await;
        assert!(sound.iter().all(|it| it.severity == Severity::Note), "{sound:?}");
        checked
    }

    async fn findings(&self) -> Vec<Finding> {
        self.place.transport.validate(&self.place.queue).await.unwrap()
    }

    /// Expects a finding of that severity with these words. Retries, because policies take a moment
    /// to apply.
    async fn expect(&self, severity: Severity, words: &str) {
        let started = Instant::now();
        loop {
            let findings = self.findings().await;
            let found = |it: &Finding| it.severity == severity && it.problem.contains(words);
            if let Some(found) = findings.iter().find(|it| found(it)) {
                assert!(!found.remedy.is_empty());
                return;
            }
            assert!(started.elapsed() < PATIENCE, "no {words:?} in {findings:?}");
        }
    }

    /// Expects that consuming fails, and that the error says why and what to do.
    async fn expect_no_consuming(&self, words: &str) {
        self.place.send(message("m")).await.unwrap();
        let options = SubscribeOptions::default();
        let refused = self.place.transport.subscribe(&self.place.queue, options).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unusable);
        let source = std::error::Error::source(&refused).unwrap().to_string();
        assert!(source.contains(words) && source.contains("provision the queue"), "{source}");
    }

    fn dead(&self) -> String {
        format!("{}.dead", self.place.queue)
    }

    async fn delete(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    async fn delete_dead_exchange(&self) {
        let options = ExchangeDeleteOptions::default();
        self.channel.exchange_delete("bezoar.dead".into(), options).await.unwrap();
    }

    /// Deletes a queue and creates it with other arguments.
    async fn recreate(&self, queue: &str, durable: bool, arguments: &[(&str, &str)]) {
        self.delete(queue).await;
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            let value = match value.parse() {
                Ok(number) => AMQPValue::LongLongInt(number),
                Err(_) => AMQPValue::LongString((*value).into()),
            };
            table.insert((*name).into(), value);
        }
        let options = QueueDeclareOptions { durable, ..Default::default() };
        self.channel.queue_declare(queue.into(), options, table).await.unwrap();
    }

    async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let bind =
            self.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none);
        bind.await.unwrap();
    }

    async fn unbind_dead(&self) {
        let (queue, none) = (self.dead(), FieldTable::default());
        let key = self.place.queue.as_str().into();
        self.channel.queue_unbind(queue.into(), "bezoar.dead".into(), key, none).await.unwrap();
    }
}

/// The arguments of a healthy quorum queue.
fn sound(queue: &str) -> Vec<(&str, &str)> {
    vec![
        ("x-queue-type", "quorum"),
        ("x-delivery-limit", "1000000"),
        ("x-dead-letter-exchange", "bezoar.dead"),
        ("x-dead-letter-routing-key", queue),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-overflow", "reject-publish"),
    ]
}

/// The same arguments with one changed or removed.
fn but<'a>(queue: &'a str, name: &'a str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut arguments = sound(queue);
    arguments.retain(|(it, _)| *it != name);
    arguments.extend(value.map(|value| (name, value)));
    arguments
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_missing_exchange_is_found_and_nothing_is_consumed() {
    for queue_type in TYPES {
        let checked = CheckedQueue::new(queue_type).await;
        checked.delete_dead_exchange().await;
        checked.expect(Severity::Error, "exchange \"bezoar.dead\" does not exist").await;
        checked.expect_no_consuming("does not exist").await;
        checked.place.transport.provision(&checked.place.queue).await.unwrap();
        one(&*checked.place.worker().await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_missing_dead_letter_queue_is_found_and_nothing_is_consumed() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    checked.delete(&checked.dead()).await;
    checked.expect(Severity::Error, "does not exist").await;
    checked.expect_no_consuming("does not exist").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_missing_binding_is_found_and_nothing_is_consumed() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    checked.unbind_dead().await;
    checked.expect(Severity::Error, "is not bound to queue").await;
    checked.expect_no_consuming("is not bound to").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_missing_binding_is_created_without_a_management_api() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    checked.unbind_dead().await;
    let blind = Options { management_url: None, ..checked.vhost.options(QueueType::Quorum) };
    let blind = checked.place.seen_with(blind);
    drop(blind.worker().await);
    assert!(checked.findings().await.iter().all(|it| it.severity == Severity::Note));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_broken_delay_topology_is_found() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    let (queue, level) = ("bezoar.delay.0.1".into(), "bezoar.delay.1".into());
    let unbind = checked.channel.queue_unbind(
        queue,
        level,
        "bezoar.delay.1>0.1".into(),
        FieldTable::default(),
    );
    unbind.await.unwrap();
    checked.expect(Severity::Error, "is not bound to queue \"bezoar.delay.0.1\"").await;
    checked.place.transport.repair(&checked.place.queue).await.unwrap();
    assert!(checked.findings().await.iter().all(|it| it.severity == Severity::Note));

    let queue = checked.place.queue.to_string();
    checked.recreate(&queue, true, &sound(&queue)).await;
    checked.expect(Severity::Error, "7 exchanges are not bound to queue").await;
    let delay = Duration::from_millis(100);
    checked.place.send(Outgoing::from(message("m")).after(delay)).await.unwrap();
    one(&*checked.place.worker().await).await;
    let repaired = checked.findings().await;
    assert!(repaired.iter().all(|it| it.severity == Severity::Note), "{repaired:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn queues_and_exchanges_that_are_not_durable_are_found_and_nothing_is_consumed() {
    let checked = CheckedQueue::new(QueueType::Classic).await;
    checked.recreate(&checked.dead(), false, &[]).await;
    checked.bind(&checked.dead(), "bezoar.dead", checked.place.queue.as_str()).await;
    checked.expect(Severity::Error, "is not durable").await;
    checked.expect_no_consuming("durable").await;

    let checked = CheckedQueue::new(QueueType::Classic).await;
    checked.delete_dead_exchange().await;
    let passing = ExchangeDeclareOptions::default();
    let (name, none) = ("bezoar.dead", FieldTable::default());
    let declare =
        checked.channel.exchange_declare(name.into(), ExchangeKind::Direct, passing, none);
    declare.await.unwrap();
    checked
        .expect(Severity::Error, "exchange \"bezoar.dead\" has a different argument: durable")
        .await;
    checked.expect_no_consuming("durable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn different_arguments_are_named_with_their_effect() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    let queue = checked.place.queue.to_string();
    for (name, value, severity, words) in [
        ("x-dead-letter-strategy", None, Severity::Note, "no dead-letter-strategy"),
        ("x-overflow", Some("drop-head"), Severity::Note, "silently defeats"),
        ("x-delivery-limit", None, Severity::Warning, "has no delivery limit"),
        ("x-delivery-limit", Some("7"), Severity::Warning, "limit of 7 by argument"),
        ("x-message-ttl", Some("60000"), Severity::Warning, "x-message-ttl is 60000"),
    ] {
        checked.recreate(&queue, true, &but(&queue, name, value)).await;
        checked.expect(severity, words).await;
        checked.place.transport.provision(&checked.place.queue).await.unwrap();
        checked.expect(severity, words).await;
    }
    checked.recreate(&queue, true, &sound(&queue)).await;
    checked.place.transport.provision(&checked.place.queue).await.unwrap();
    let sound = checked.findings().await;
    assert!(sound.iter().all(|it| it.severity == Severity::Note), "{sound:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn nothing_is_consumed_if_a_reject_would_lose_it() {
    let reject = |options| Options { dead_lettering: DeadLettering::Reject, ..options };
    let checked = CheckedQueue::with(QueueType::Quorum, reject).await;
    let queue = checked.place.queue.to_string();
    checked.recreate(&queue, true, &but(&queue, "x-dead-letter-exchange", Some("nowhere"))).await;
    checked.expect_no_consuming("is not bound to").await;
    let publishing = checked.place.transport.dead_lettering(DeadLettering::Publish);
    let publishing = Place { transport: publishing, queue: checked.place.queue.clone() };
    one(&*publishing.worker().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn policies_that_change_a_queue_are_found() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    checked.vhost.policy("^broker-", r#"{"delivery-limit": 9, "message-ttl": 90000}"#).await;
    checked.expect(Severity::Warning, "limit of 9 by policy \"p\"").await;
    checked.expect(Severity::Error, "loses messages that wait too long: policy \"p\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn policies_for_all_queues_must_leave_out_those_for_delayed_messages() {
    const LIMITS: &str = r#"{"max-length": 1000, "message-ttl": 90000, "expires": 86400000}"#;
    let always = |options| Options { return_queues: ReturnQueues::Always, ..options };
    let checked = CheckedQueue::with(QueueType::Quorum, always).await;
    checked.vhost.policy(r"^(?!bezoar\\.)", LIMITS).await; // as the remedy says
    checked.expect(Severity::Error, "is deleted after a time without use: policy \"p\"").await;
    let findings = checked.findings().await;
    assert!(findings.iter().all(|it| !it.problem.contains("\"bezoar.")), "{findings:?}");
    checked.vhost.policy(".*", LIMITS).await;
    let shared = "unroutable\", like 49 other queues for delayed messages,".to_owned();
    let own = format!("return.{}\"", checked.place.queue);
    for queue in [shared, own] {
        for (effect, setting) in [
            ("may be deleted together with the retries in it", "expires is 86400000"),
            ("may be full: then retries of all queues are held up, or lost", "max-length is 1000"),
        ] {
            let words = format!("\"bezoar.{queue} {effect}: policy \"p\" with {setting}");
            checked.expect(Severity::Error, &words).await;
        }
    }
    checked.expect(Severity::Error, "may end delays too early").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn dead_letters_that_come_back_by_themselves_are_found() {
    let direct = CheckedQueue::new(QueueType::Quorum).await;
    let queue = direct.place.queue.to_string();
    direct.bind(&queue, "bezoar.dead", &queue).await;
    direct.expect(Severity::Error, "come back to it through exchange \"bezoar.dead\"").await;

    let around = CheckedQueue::new(QueueType::Classic).await;
    let (queue, dead) = (around.place.queue.to_string(), around.dead());
    let topic = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let none = FieldTable::default();
    let declare = around.channel.exchange_declare("back".into(), ExchangeKind::Topic, topic, none);
    declare.await.unwrap();
    around.bind(&queue, "back", "again.#").await;
    let back = [
        ("x-queue-type", "classic"),
        ("x-dead-letter-exchange", "back"),
        ("x-dead-letter-routing-key", "again.and.again"),
    ];
    around.recreate(&dead, true, &back).await;
    around.bind(&dead, "bezoar.dead", &queue).await;
    around.expect(Severity::Error, "come back to it through exchange \"back\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn a_handler_timeout_beyond_the_consumer_timeout_is_found() {
    let checked = CheckedQueue::with(QueueType::Quorum, |options| Options {
        handler_timeout: Some(Duration::from_secs(22 * 60)),
        ..options
    })
    .await;
    let slow = Duration::from_secs(23 * 60);
    let options =
        Options { handler_timeout: Some(slow), ..checked.vhost.options(QueueType::Quorum) };
    let place = checked.place.seen_with(options);
    let slow = CheckedQueue { place, ..checked };
    slow.expect(Severity::Warning, "consumer timeout is 1800s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn delay_exchanges_may_have_their_alternate_exchange_by_a_policy() {
    let vhost = Vhost::new().await;
    let (_connection, channel) = vhost.channel().await;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    for level in 0..7 {
        let (name, none) = (format!("bezoar.delay.{level}"), FieldTable::default());
        channel.exchange_declare(name.into(), ExchangeKind::Direct, durable, none).await.unwrap();
    }
    let options = vhost.options(QueueType::Quorum);
    let place = Place::with(options.clone()).await;
    let about = async |place: &Place| {
        let findings = place.transport.validate(&place.queue).await.unwrap();
        let about = findings.into_iter().filter(|it| it.problem.contains("alternate"));
        about.map(|it| it.severity).collect::<Vec<_>>()
    };
    assert_eq!(about(&place).await, [Severity::Warning]);
    let blind = place.seen_with(Options { management_url: None, ..options });
    assert_eq!(about(&blind).await, [Severity::Note]);
    let definition = r#"{"alternate-exchange": "bezoar.unroutable"}"#;
    vhost.policy_for("exchanges", r"^bezoar\\.delay", definition).await;
    assert_eq!(about(&place).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn without_permission_a_note_says_what_was_not_checked() {
    let checked = CheckedQueue::new(QueueType::Quorum).await;
    let user = checked.vhost.user().await;
    let own = checked.vhost.options(QueueType::Quorum);
    let management = std::env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap();
    let management = management.replacen("guest:guest", &format!("{user}:secret"), 1);
    let place =
        checked.place.seen_with(Options { management_url: Some(management.into()), ..own.clone() });
    let findings = place.transport.validate(&place.queue).await.unwrap();
    for words in ["policies of queue", "bindings", "version", "alarms"] {
        let note = |it: &&Finding| it.severity == Severity::Note && it.problem.contains(words);
        let note = findings.iter().find(note).unwrap_or_else(|| panic!("{words}: {findings:?}"));
        assert!(note.remedy.contains("monitoring"), "{note:?}");
    }
    let blind = checked.place.seen_with(Options { management_url: None, ..own });
    let findings = blind.transport.validate(&blind.queue).await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].remedy.contains("management_url"));
}

/// As gateways that start together on a new broker do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn concurrent_provisioning_works() {
    let vhost = Vhost::new().await;
    join_all((0..8).map(|_| Place::with(vhost.options(QueueType::Quorum)))).await;
}
