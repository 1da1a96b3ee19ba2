//! Returns delayed messages from `bezoar.unroutable` to their queues, if these exist.
//!
//! A delayed message gets there when a delay ends and the broker finds no route for it: because its queue was deleted, but
//! also for a moment while a node of a cluster restarts. The dead-letter feed of `bezoar.unroutable` returns those of the
//! second kind. Whoever consumes looks through the queue now and then, so that this needs no gateway. Messages of deleted
//! queues stay where they are; they are fetched one by one and not prefetched, so that those behind them are reached.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use bezoar_core::{ErrorKind, Message, QueueName, TransportError};
use jiff::Timestamp;
use lapin::{
    Channel,
    message::BasicGetMessage,
    options::{BasicAckOptions, BasicGetOptions},
};
use tokio::time::{Instant, sleep};

use crate::{
    connection::broker_connection::BrokerConnection,
    consuming::consumer_pair::ConsumerPair,
    error::{error, for_queue},
    publishing::publisher::{Patience, Publication, Published},
    topology::UNROUTABLE,
    transport::TransportState,
    wire::{self, Raw, Substitutes, foreign_failure, origin},
};

/// How often the queue is read. Doubled up to the longest while nothing can be returned: each time counts as a delivery of
/// every message that stays.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How long one look through the queue takes, at most: far less than the shortest useful consumer timeout, because what
/// stays is unacknowledged until the end.
const PASS_LIMIT: Duration = Duration::from_secs(60);

/// The consumers of a transport and of all its clones.
pub(crate) type Pairs = Mutex<Vec<Weak<ConsumerPair>>>;

/// Starts the task, unless it runs. It ends with the transport, or if the queue may not be read.
pub(crate) fn watch(inner: &TransportState) {
    if inner.watches_unroutable.swap(true, Ordering::SeqCst) {
        return;
    }
    let (running, pairs) = (inner.watches_unroutable.clone(), Arc::downgrade(&inner.pairs));
    tokio::spawn(async move {
        run(&pairs).await;
        running.store(false, Ordering::SeqCst);
    });
}

async fn run(pairs: &Weak<Pairs>) {
    let mut interval = SHORTEST;
    loop {
        sleep(interval).await;
        let Some(pairs) = pairs.upgrade() else { return };
        let Some(inner) = consuming(&pairs) else { continue };
        drop(pairs);
        interval = match return_all(inner).await {
            Ok(true) | Err(TransportError { kind: ErrorKind::QueueNotFound(_), .. }) => SHORTEST,
            Ok(false) => (interval * 2).min(LONGEST),
            Err(TransportError { kind: ErrorKind::NotAuthorized, .. }) => {
                tracing::warn!(
                    "the user may not read {UNROUTABLE}: retries without a route stay there"
                );
                return;
            }
            Err(_) => interval,
        };
    }
}

/// The state of a transport that consumes; `None` while none does.
fn consuming(pairs: &Pairs) -> Option<Arc<TransportState>> {
    let pairs = pairs.lock().unwrap_or_else(PoisonError::into_inner);
    pairs.iter().find_map(Weak::upgrade).map(|pair| pair.inner.clone())
}

/// Where a message in a dead-letter queue belongs.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) queue: QueueName,
    /// When its delay ends, if it was delayed.
    due: Option<Timestamp>,
}

impl Origin {
    /// The origin, if it is known and not the queue whose dead letters are read.
    pub(super) fn of(raw: &Raw) -> Option<Self> {
        let queue = foreign_failure::origin_queue(raw).filter(|it| *it != raw.queue)?;
        Some(Self { queue, due: wire::due(raw) })
    }
}

/// Returns what can be returned; whether nothing stays. On a connection of its own: a message that cannot be parsed closes
/// it, and closing it requeues what stays.
async fn return_all(inner: Arc<TransportState>) -> Result<bool, TransportError> {
    let queue = QueueName::new(UNROUTABLE).expect("it is a valid name");
    let count = inner.ready_count(&queue, UNROUTABLE, "receive").await?;
    if count == 0 {
        return Ok(true);
    }
    let link = BrokerConnection::new(inner.options.clone(), "returning retries");
    let returned = return_some(&inner, &link, &queue, count).await;
    link.close().await;
    let returned = returned?;
    if returned > 0 {
        tracing::info!(messages = returned, "returned to their queues from {UNROUTABLE}");
    }
    Ok(returned == count)
}

/// How many of the first `count` messages were returned.
async fn return_some(
    inner: &TransportState,
    link: &BrokerConnection,
    queue: &QueueName,
    count: u64,
) -> Result<u64, TransportError> {
    let channel = link.channel("receive").await?;
    let (started, mut returned, mut missing) = (Instant::now(), 0, BTreeSet::new());
    for _ in 0..count {
        let fetched = link.with_timeout(fetch(&channel), "receive").await?;
        let fetched = fetched.map_err(|source| for_queue(&source, queue, "receive"))?;
        let Some(BasicGetMessage { delivery, .. }) = fetched else { break };
        let tag = delivery.delivery_tag;
        let raw = origin::with_original_route(Raw::delivered(delivery, queue.clone()));
        if let Some(origin) = Origin::of(&raw).filter(|it| !missing.contains(&it.queue)) {
            let message = wire::read(&raw, Substitutes::new(inner.options.clock.now()));
            if inner.return_to(&origin, &raw, &message).await? {
                returned += 1;
                let ack = channel.basic_ack(tag, BasicAckOptions::default());
                let acked = link.with_timeout(ack, "receive").await?;
                acked.map_err(|source| for_queue(&source, queue, "receive"))?;
            } else {
                missing.insert(origin.queue);
            }
        }
        if started.elapsed() > PASS_LIMIT {
            break;
        }
    }
    Ok(returned)
}

async fn fetch(channel: &Channel) -> lapin::Result<Option<BasicGetMessage>> {
    channel.basic_get(UNROUTABLE.into(), BasicGetOptions { no_ack: false }).await
}

impl TransportState {
    /// Sends a delayed message to its queue, whatever exchange it came by: other queues behind that exchange have their
    /// copies. What is left of its delay it waits in the delay queues. `false` if its queue does not exist.
    ///
    /// # Errors
    ///
    /// If it is not known whether it was stored, or whether the queue exists.
    pub(super) async fn return_to(
        &self,
        Origin { queue, due }: &Origin,
        raw: &Raw,
        message: &Message,
    ) -> Result<bool, TransportError> {
        let left = due.map_or(Duration::ZERO, |due| self.until(due));
        let properties = match left.is_zero() {
            true => origin::replay_target(raw, message, &self.user).to_queue(),
            false => wire::republished(raw, message),
        };
        let (exchange, key) = ("".into(), queue.as_str().into());
        let copy = Publication { exchange, key, properties, body: raw.body.clone() };
        let copy = vec![self.delayed(copy, queue, left)];
        let sent = self.publish_to(queue, copy, Patience::ThroughAlarms, "receive").await;
        match sent.into_iter().next().expect("one outcome for one message") {
            Ok(Published::Stored) => Ok(true),
            Ok(Published::NotRouted) => {
                match self.ready_count(queue, queue.as_str(), "receive").await {
                    Err(failed) if is_missing(&failed) => Ok(false),
                    Err(failed) => Err(failed),
                    Ok(_) => Err(error(ErrorKind::Unavailable, "receive")
                        .with_source("the broker finds no route to a queue that exists")),
                }
            }
            Err(failed) if is_missing(&failed) => Ok(false),
            Err(failed) => Err(failed),
        }
    }

    /// The time until then, at most the longest delay.
    fn until(&self, due: Timestamp) -> Duration {
        let left = due.duration_since(self.options.clock.now());
        Duration::try_from(left).unwrap_or_default().min(self.options.max_delay)
    }
}

fn is_missing(failed: &TransportError) -> bool {
    matches!(failed.kind, ErrorKind::QueueNotFound(_))
}
