//! What workers make of a transport's capabilities, and of messages that expire or have a key.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    Capabilities, DeadLetter, DeadLetterAccess, Delivery, Event, Failure, Host, Message, MessageId,
    MessageType, Observer, OrderingKey, QueueAdmin, QueueName, RetryPolicy, Router, Shutdown,
    Snooze, Subscription, Transport, TransportError, Worker,
    memory::{MemoryTransport, Options},
    testing::{Harness, VirtualClock},
};
use bezoar_conformance::{Intercept, Intercepted};
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn message(id: &str) -> Message {
    let (id, kind) = (MessageId::new(id).unwrap(), MessageType::new("result").unwrap());
    Message::new(id, kind, bezoar::jiff::Timestamp::UNIX_EPOCH, "1")
}

/// The virtual clock begins here.
fn at(seconds: i64) -> bezoar::jiff::Timestamp {
    bezoar::jiff::Timestamp::from_second(1_000_000_000 + seconds).unwrap()
}

fn failing() -> Router {
    Router::new().on("result", || async { Err::<(), _>(std::io::Error::other("down")) })
}

#[tokio::test(start_paused = true)]
async fn an_expired_message_becomes_a_dead_letter_and_is_not_handled() {
    let (seen, mut handled) = mpsc::unbounded_channel();
    let router = Router::new().on("result", move || {
        let seen = seen.clone();
        async move { seen.send(()).unwrap() }
    });
    let lab = Harness::start(Worker::new("lab", router).unwrap()).await;
    lab.send_message(message("expired").with_expires_at(at(0))).await;
    lab.send_message(message("fresh").with_expires_at(at(3_600))).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!((dead.message.id.as_str(), dead.reason.code().as_str()), ("expired", "expired"));
    assert_eq!(dead.message.ledger.failed, 0, "no handler ran");
    handled.recv().await.unwrap();
    assert!(handled.try_recv().is_err(), "only the fresh one was handled");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_expires_between_retries_is_not_tried_again() {
    let policy = RetryPolicy::jobs().with_max_retries(20);
    let lab = Harness::start(Worker::new("lab", failing()).unwrap().policy(policy)).await;
    lab.send_message(message("m").with_expires_at(at(5))).await;
    lab.until_idle().await;
    let [dead] = &lab.dead_letters().await[..] else { panic!("one dead letter") };
    assert_eq!(dead.reason.code().as_str(), "expired");
    assert!((1..20).contains(&dead.message.ledger.failed), "it was tried until then");
    assert!(!dead.message.ledger.history().is_empty(), "and says how it failed");
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_key_are_handled_in_order_whatever_fails() {
    let (seen, mut handled) = mpsc::unbounded_channel();
    let router = Router::new().on("result", move |context: bezoar::Context| {
        let seen = seen.clone();
        async move {
            seen.send((context.message.id.to_string(), context.attempt)).unwrap();
            match (context.message.id.as_str(), context.attempt) {
                ("m-1", 1 | 2) => Err(std::io::Error::other("down")),
                _ => Ok(()),
            }
        }
    });
    let lab = Harness::start(Worker::new("lab", router).unwrap()).await;
    for id in ["m-1", "m-2", "m-3"] {
        let key = OrderingKey::new("patient-7").unwrap();
        lab.send_message(message(id).with_ordering_key(key)).await;
    }
    lab.until_idle().await;
    let mut order = Vec::new();
    while let Ok((id, _)) = handled.try_recv() {
        order.push(id);
    }
    assert_eq!(order, ["m-1", "m-1", "m-1", "m-2", "m-3"]);
}

/// Queues in memory with other capabilities; remembers how long receives were asked to wait.
#[derive(Debug, Clone)]
struct Limited {
    inner: MemoryTransport,
    change: fn(&mut Capabilities),
    waits: Arc<Mutex<Vec<Duration>>>,
}

async fn limited(change: fn(&mut Capabilities)) -> Limited {
    let clock = Arc::new(VirtualClock::default());
    let inner = MemoryTransport::new(Options { clock, ..Options::default() });
    inner.provision(&QueueName::new("lab").unwrap()).await.unwrap();
    Limited { inner, change, waits: Arc::default() }
}

#[async_trait::async_trait]
impl Intercept for Limited {
    fn inner(&self) -> &dyn Transport {
        &self.inner
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        (self.change)(&mut capabilities);
        capabilities
    }

    async fn receive(
        &self,
        inner: &dyn Subscription,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        self.waits.lock().unwrap().push(wait);
        inner.receive(max, wait).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_waits_longer_than_the_transport_is_refused_at_start() {
    let transport = limited(|can| can.scheduled = Some(2 * SECOND)).await;
    let worker = Worker::new("lab", failing()).unwrap().policy(RetryPolicy::jobs());
    let refused =
        Host::new().worker(Arc::new(Intercepted(transport)), worker).run(Shutdown::default()).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("retry policy") && text.contains("2 s at most"), "{text}");
}

/// The dead letter of the one message `m`, handled on a transport that can wait for an hour.
async fn dead_letter_of(failure: fn() -> Failure) -> (DeadLetter, Vec<Duration>) {
    let transport = limited(|can| can.scheduled = Some(HOUR)).await;
    let lab = QueueName::new("lab").unwrap();
    transport.inner.send(&(&lab).into(), &[message("m").into()]).await.remove(0).unwrap();
    let router = Router::new().on("result", move || async move { Err::<(), _>(failure()) });
    let worker =
        Worker::new("lab", router).unwrap().policy(RetryPolicy::jobs().with_max_retries(1));
    let (delays, shutdown) = (Arc::new(Delays::default()), Shutdown::default());
    let worker = worker.observer(delays.clone());
    let host = Host::new().worker(Arc::new(Intercepted(transport.clone())), worker);
    let running = tokio::spawn(host.run(shutdown.clone()));
    timeout(24 * HOUR, delays.dead.notified()).await.expect("it fails for good within a day");
    shutdown.drain();
    running.await.unwrap().unwrap();
    let mut dead = transport.inner.dead_letters(&lab, Default::default()).await.unwrap();
    (dead.remove(0), delays.retried.lock().unwrap().clone())
}

#[derive(Debug, Default)]
struct Delays {
    retried: Mutex<Vec<Duration>>,
    dead: Notify,
}

impl Observer for Delays {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        match event {
            Event::Retried { after, .. } | Event::NotCounted { after, .. } => {
                self.retried.lock().unwrap().push(*after);
            }
            Event::DeadLettered { .. } => self.dead.notify_one(),
            _ => (),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_snooze_beyond_the_longest_delay_is_a_failed_attempt() {
    let (dead, delays) = dead_letter_of(|| Snooze(HOUR + SECOND).into()).await;
    let ledger = &dead.message.ledger;
    assert_eq!((ledger.failed, ledger.last().unwrap().code.as_str()), (2, "snooze-limit"));
    assert!(ledger.uncounted.is_none(), "it was never snoozed");
    assert!(delays.iter().all(|delay| *delay < HOUR), "the policy decides: {delays:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_longest_delay_ends_with_it() {
    let busy = || Failure::transient("busy").with_retry_after(5 * HOUR);
    let (dead, delays) = dead_letter_of(busy).await;
    assert_eq!((dead.message.ledger.failed, delays), (2, vec![HOUR]));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_transport_does_not_have_is_refused_at_start() {
    let transport = limited(|can| can.shortest_lease = 60 * SECOND).await;
    let worker = Worker::new("lab", failing()).unwrap();
    let refused =
        Host::new().worker(Arc::new(Intercepted(transport)), worker).run(Shutdown::default()).await;
    assert!(refused.unwrap_err().to_string().contains("lease is 30 s"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_waits_is_asked_to_instead_of_being_polled() {
    let transport = limited(|can| {
        can.wakes = false;
        can.server_wait = Some(7 * SECOND);
    })
    .await;
    let shutdown = Shutdown::default();
    let host = Host::new()
        .worker(Arc::new(Intercepted(transport.clone())), Worker::new("lab", failing()).unwrap());
    let running = tokio::spawn(host.run(shutdown.clone()));
    tokio::time::sleep(70 * SECOND).await;
    shutdown.drain();
    running.await.unwrap().unwrap();
    let waits = transport.waits.lock().unwrap().clone();
    assert!(waits.iter().all(|wait| *wait == 7 * SECOND), "{waits:?}");
    assert!((9..=11).contains(&waits.len()), "one after the other, without a pause: {waits:?}");
}
