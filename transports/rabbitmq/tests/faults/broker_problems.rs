//! Problems of the broker pause work and fail no message.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{
    Delivery, ErrorKind, FailedTry, Failure, Message, MessageId, MessageType, QueueAdmin,
    QueueName, Settlement, SubscribeOptions, Subscription, Transport, TransportError, millis,
};
use bezoar_rabbitmq::{QueueType, RabbitTransport};
use tokio::time::{Instant, sleep};

use super::{load::options, server::Server};

const PATIENCE: Duration = Duration::from_secs(20);

struct Place {
    transport: RabbitTransport,
    queue: QueueName,
}

impl Place {
    async fn new(url: &str, queue_type: QueueType) -> Self {
        let transport = RabbitTransport::open(options(url, queue_type)).unwrap();
        let queue = QueueName::new(format!("trouble-{}", queue_type.as_str())).unwrap();
        transport.provision(&queue).await.unwrap();
        Self { transport, queue }
    }

    async fn send(&self, id: &str) -> Result<(), TransportError> {
        let (id, kind) = (MessageId::new(id).unwrap(), MessageType::new("sample").unwrap());
        let message = Message::new(id, kind, millis(0), "body");
        self.transport.send(&(&self.queue).into(), &[message.into()]).await.pop().unwrap().map(drop)
    }

    async fn worker(&self) -> Box<dyn Subscription> {
        let options = SubscribeOptions::default().with_lease(Duration::from_secs(1));
        self.transport.subscribe(&self.queue, options).await.unwrap()
    }
}

async fn one(worker: &dyn Subscription) -> Delivery {
    worker.receive(NonZeroU32::MIN, PATIENCE).await.unwrap().pop().expect("a message must arrive")
}

fn retry() -> Settlement {
    let failure = Failure::transient("boom");
    let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &failure)];
    Settlement::Retry { after: Duration::ZERO, tries }
}

async fn settle(
    worker: &dyn Subscription,
    held: Delivery,
    end: Settlement,
) -> Result<(), TransportError> {
    worker.settle(vec![(held, end)]).await.pop().unwrap()
}

/// Tries again until it works.
async fn until_ok<T>(mut attempt: impl AsyncFnMut() -> Result<T, TransportError>) -> T {
    let started = Instant::now();
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(failed) => assert!(started.elapsed() < PATIENCE, "it does not end: {failed}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn an_alarm_throttles_and_leases_are_kept() {
    let server = Server::start("alarm").await;
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let place = Place::new(&server.url(), queue_type).await;
        place.send("m").await.unwrap();
        let worker = place.worker().await;
        let held = one(&*worker).await;
        server.control(&["set_disk_free_limit", "mem_relative", "1000.0"]);
        // The first message is already being sent when the broker raises the alarm.
        let first = place.send("unknown").await.unwrap_err();
        assert!(matches!(first.kind, ErrorKind::OutcomeUnknown), "{first}");
        let refused = place.send("refused").await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Throttled { retry_after: None });
        let told = std::error::Error::source(&refused).unwrap().to_string();
        assert!(told.contains("memory or disk"), "{told}");

        let mut again = held.copy();
        let refused = settle(&*worker, held, retry()).await.unwrap_err();
        assert!(refused.is_transient(), "{refused}");
        let renewed = std::slice::from_mut(&mut again);
        worker.extend(renewed, Duration::from_secs(1)).await.remove(0).expect("it is still leased");
        server.control(&["set_disk_free_limit", "1MB"]);
        until_ok(async || settle(&*worker, again.copy(), retry()).await).await;
        until_ok(async || place.send("after").await).await;
        let mut seen = Vec::new();
        while !seen.contains(&"after".to_owned()) {
            let held = one(&*worker).await;
            let (id, ledger) = (held.message.id.to_string(), &held.message.ledger);
            assert!(!held.redelivered, "{id}: no delivery was lost");
            assert_eq!(ledger.failed, u32::from(id == "m"));
            seen.push(id);
            settle(&*worker, held, Settlement::Complete).await.unwrap();
        }
        assert!(seen.contains(&"m".to_owned()), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn a_channel_that_the_broker_closes_returns_its_messages() {
    let server = Server::start("timeout").await;
    for setting in ["consumer_timeout", "channel_tick_interval"] {
        let set = format!("application:set_env(rabbit, {setting}, 1000).");
        server.control(&["eval", &set]);
    }
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let place = Place::new(&server.url(), queue_type).await;
        place.send("m").await.unwrap();
        let worker = place.worker().await;
        let mut held = one(&*worker).await;
        let started = Instant::now();
        while worker.extend(std::slice::from_mut(&mut held), Duration::from_secs(1)).await[0]
            .is_ok()
        {
            assert!(started.elapsed() < PATIENCE, "the broker waits forever");
            sleep(Duration::from_millis(100)).await;
        }
        let late = settle(&*worker, held, Settlement::Complete).await.unwrap_err();
        assert_eq!(late.kind, ErrorKind::LeaseLost);
        let again = one(&*worker).await;
        assert!(again.redelivered && again.message.ledger.failed == 0, "counted, not failed");
        settle(&*worker, again, Settlement::Complete).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn a_queue_that_is_deleted_and_created_again_is_consumed() {
    let server = Server::start("deleted").await;
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let place = Place::new(&server.url(), queue_type).await;
        let worker = place.worker().await;
        let waiting = worker.receive(NonZeroU32::MIN, PATIENCE);
        let delete = async {
            sleep(Duration::from_millis(200)).await;
            server.control(&["delete_queue", place.queue.as_str()]);
        };
        let (failed, ()) = tokio::join!(waiting, delete);
        assert_eq!(failed.unwrap_err().kind, ErrorKind::QueueNotFound(place.queue.clone()));
        place.transport.provision(&place.queue).await.unwrap();
        place.send("m").await.unwrap();
        let held = one(&*worker).await;
        settle(&*worker, held, Settlement::Complete).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a broker of its own; `cargo xtask test` installs it"]
async fn revoked_credentials_pause_until_they_are_restored() {
    let server = Server::start("revoked").await;
    let all = ["set_permissions", "nurse", ".*", ".*", ".*"];
    server.control(&["add_user", "nurse", "right"]);
    server.control(&all);
    let place =
        Place::new(&server.url().replace("guest:guest", "nurse:right"), QueueType::Quorum).await;
    place.send("m").await.unwrap();
    let worker = place.worker().await;
    let held = one(&*worker).await;
    for (revoke, restore) in [
        (vec!["change_password", "nurse", "other"], vec!["change_password", "nurse", "right"]),
        (vec!["clear_permissions", "nurse"], all.to_vec()),
    ] {
        server.control(&revoke);
        server.control(&["close_all_user_connections", "nurse", "revoked"]);
        let failed = loop {
            // The first error says that the connection is lost, which is transient.
            match worker.receive(NonZeroU32::MIN, Duration::from_secs(2)).await {
                Ok(some) => assert!(some.is_empty(), "access is refused"),
                Err(failed) if failed.is_transient() => (),
                Err(failed) => break failed,
            }
        };
        assert_eq!(failed.kind, ErrorKind::NotAuthorized);
        assert!(place.send("refused").await.is_err());
        server.control(&restore);
    }
    assert!(settle(&*worker, held, Settlement::Complete).await.is_err(), "its channel is gone");
    let again = until_ok(async || worker.receive(NonZeroU32::MIN, PATIENCE).await).await;
    let again = again.into_iter().next().expect("it is still there");
    assert!(again.redelivered && again.message.ledger.failed == 0);
    settle(&*worker, again, Settlement::Complete).await.unwrap();
}
