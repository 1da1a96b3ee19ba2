//! A queue for one test, and a worker on it.

use std::{env, num::NonZeroU32, time::Duration};

use bezoar_core::{
    Code, DeadLetter, DeadLetterFeed, Delivery, FailedTry, Failure, Message, MessageId,
    MessageType, Outgoing, QueueAdmin, QueueName, Reason, Settlement, SubscribeOptions,
    Subscription, Transport, TransportError, millis,
};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport};
use lapin::{Channel, Connection, ConnectionProperties};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// After this long without a letter, the feed counts as empty.
pub(crate) const LAST_LETTER: Duration = Duration::from_millis(1_500);
pub(crate) const TYPES: [QueueType; 2] = [QueueType::Quorum, QueueType::Classic];

pub(crate) fn url() -> String {
    env::var("BEZOAR_TEST_AMQP").unwrap()
}

pub(crate) fn options(queue_type: QueueType) -> Options {
    Options {
        management_url: env::var("BEZOAR_TEST_AMQP_MANAGEMENT").ok().map(Into::into),
        queue_type,
        idle: Duration::from_millis(100),
        connect_timeout: Duration::from_secs(20),
        reconnect_pause: Duration::from_millis(200),
        ..Options::from_url(&url()).unwrap()
    }
}

pub(crate) struct Place {
    pub(crate) transport: RabbitTransport,
    pub(crate) queue: QueueName,
}

impl Place {
    pub(crate) async fn new(queue_type: QueueType) -> Self {
        Self::with(options(queue_type)).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let transport = RabbitTransport::open(options).unwrap();
        let queue = QueueName::new(format!("broker-{:08x}", rand::random::<u32>())).unwrap();
        transport.provision(&queue).await.unwrap();
        Self { transport, queue }
    }

    /// The same queue, as another process would use it.
    pub(crate) fn seen_with(&self, options: Options) -> Self {
        Self { transport: RabbitTransport::open(options).unwrap(), queue: self.queue.clone() }
    }

    pub(crate) async fn send(&self, outgoing: impl Into<Outgoing>) -> Result<(), TransportError> {
        self.transport
            .send(&(&self.queue).into(), &[outgoing.into()])
            .await
            .pop()
            .unwrap()
            .map(drop)
    }

    /// The feed of its dead letters.
    pub(crate) async fn feed(&self) -> Box<dyn DeadLetterFeed> {
        self.transport.dead_letter_feed(&self.queue).await.unwrap().expect("a broker has a feed")
    }

    /// All dead letters, sorted by id. None is removed.
    pub(crate) async fn dead(&self) -> Vec<DeadLetter> {
        let feed = self.feed().await;
        let mut dead = Vec::new();
        loop {
            let some = feed.next(NonZeroU32::MAX, LAST_LETTER).await.unwrap();
            if some.is_empty() {
                break;
            }
            dead.extend(some);
        }
        dead.sort_by_key(|letter: &DeadLetter| letter.id.number());
        dead
    }

    /// Replays all dead letters; returns how many.
    pub(crate) async fn replay_all(&self) -> u64 {
        self.feed().await.replay_all(u64::MAX, LAST_LETTER).await.unwrap()
    }

    pub(crate) async fn worker(&self) -> Box<dyn Subscription> {
        let options = SubscribeOptions::default().with_lease(Duration::from_secs(1));
        self.transport.subscribe(&self.queue, options).await.unwrap()
    }
}

pub(crate) async fn one(worker: &dyn Subscription) -> Delivery {
    worker.receive(NonZeroU32::MIN, PATIENCE).await.unwrap().pop().expect("a message must arrive")
}

pub(crate) async fn settle(worker: &dyn Subscription, held: Delivery, settlement: Settlement) {
    worker.settle(vec![(held, settlement)]).await.pop().unwrap().unwrap();
}

/// Whether nothing arrives for a while.
pub(crate) async fn is_empty(worker: &dyn Subscription) -> bool {
    let some = worker.receive(NonZeroU32::MIN, Duration::from_millis(1_500)).await.unwrap();
    some.is_empty()
}

pub(crate) fn message(id: &str) -> Message {
    let (id, kind) = (MessageId::new(id).unwrap(), MessageType::new("sample").unwrap());
    Message::new(id, kind, millis(1_700_000_000_123), "body")
}

pub(crate) fn retry(after: Duration) -> Settlement {
    let failure = Failure::transient("boom");
    let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &failure)];
    Settlement::Retry { after, tries }
}

pub(crate) fn dead_letter() -> Settlement {
    let reason = Reason::new(Code::from_static("test"), "dead-lettered by a test");
    Settlement::DeadLetter { reason, tries: Vec::new() }
}

/// A channel of another client.
pub(crate) async fn foreign_channel() -> (Connection, Channel) {
    let connection = Connection::connect(&url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// The same URL with another host and port.
pub(crate) fn at(address: &str) -> String {
    let url = url();
    let (user, rest) = url.split_once('@').unwrap();
    format!("{user}@{address}/{}", rest.split_once('/').unwrap().1)
}

pub(crate) fn broker() -> String {
    url().split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned()
}
