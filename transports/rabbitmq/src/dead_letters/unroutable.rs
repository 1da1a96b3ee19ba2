//! Returns delayed messages from `bezoar.unroutable` to their queues, if these exist.
//!
//! A delayed message gets there when a delay ends and the broker finds no route for it: because its queue was deleted, but
//! also for a moment while a node of a cluster restarts. The dead-letter feed of `bezoar.unroutable` returns those of the
//! second kind. So does whoever consumes, so that this needs no gateway: a consumer waits for the first message, which
//! costs nothing while there is none, and gives it back. Then the queue is looked through. Messages of deleted queues stay
//! where they are; they are fetched one by one and not prefetched, so that those behind them are reached.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use bezoar_core::{ErrorKind, Message, QueueName, TransportError};
use futures_util::StreamExt;
use jiff::Timestamp;
use lapin::{
    Channel,
    message::BasicGetMessage,
    options::{BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    connection::broker_connection::BrokerConnection,
    consuming::consumer_pair::ConsumerPair,
    error::{error, for_queue, queue_not_found},
    publishing::publisher::{Patience, Publication, Published},
    topology::UNROUTABLE,
    transport::TransportState,
    wire::{self, Raw, Substitutes, foreign_failure, origin},
};

/// The pause before the queue is read again. Doubled up to the longest while nothing can be returned: each time counts as
/// a delivery of every message that stays.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// The pause between an arrival and the look through the queue. The broker found no route a moment ago: a node may still be
/// starting, or a queue that was just created have no leader yet.
const ARRIVAL_PAUSE: Duration = Duration::from_secs(3);
/// The pause after an error.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
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
    let mut pause = SHORTEST;
    loop {
        pause = match wait_and_return(pairs).await {
            Ok(Pass::Complete) => SHORTEST,
            Ok(Pass::TransportGone) => return,
            Err(TransportError { kind: ErrorKind::NotAuthorized, .. }) => {
                tracing::warn!(
                    "the user may not read {UNROUTABLE}: retries without a route stay there"
                );
                return;
            }
            Ok(Pass::SomeStay) | Err(TransportError { kind: ErrorKind::QueueNotFound(_), .. }) => {
                sleep(pause).await;
                (pause * 2).min(LONGEST)
            }
            Err(_) => {
                sleep(ERROR_PAUSE).await;
                pause
            }
        };
    }
}

/// How a look through the queue ended.
enum Pass {
    Complete,
    /// Messages of deleted queues stay.
    SomeStay,
    TransportGone,
}

/// Waits for a message, and returns what can be returned.
async fn wait_and_return(pairs: &Weak<Pairs>) -> Result<Pass, TransportError> {
    let Some(inner) = consuming(pairs) else {
        sleep(SHORTEST).await;
        let is_gone = pairs.strong_count() == 0;
        return Ok(if is_gone { Pass::TransportGone } else { Pass::Complete });
    };
    let link = inner.dead.clone();
    drop(inner); // a transport that nobody uses any more must not be kept alive
    if !has_arrival(&link, pairs).await? {
        return Ok(Pass::Complete);
    }
    sleep(ARRIVAL_PAUSE).await;
    let Some(inner) = consuming(pairs) else { return Ok(Pass::Complete) };
    Ok(if return_all(inner).await? { Pass::Complete } else { Pass::SomeStay })
}

/// Waits until the queue has a message, and leaves it there; `false` if nobody consumes any more.
async fn has_arrival(link: &BrokerConnection, pairs: &Weak<Pairs>) -> Result<bool, TransportError> {
    let queue = QueueName::new(UNROUTABLE).expect("it is a valid name");
    let failed = |source: lapin::Error| for_queue(&source, &queue, "receive");
    let mut channel = link.guarded_channel("receive").await?;
    let opening = async {
        channel.basic_qos(1, BasicQosOptions::default()).await?;
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        channel.basic_consume(UNROUTABLE.into(), "".into(), options, none).await
    };
    let mut consumer = link.with_timeout(opening, "receive").await?.map_err(failed)?;
    channel.keep_until_closed(&consumer);
    loop {
        match timeout(SHORTEST, consumer.next()).await {
            Ok(Some(Ok(_))) => break,
            Ok(Some(Err(source))) => return Err(failed(source)),
            Ok(None) => return Err(queue_not_found(&queue, "receive")),
            Err(_) if consuming(pairs).is_none() => return Ok(false),
            Err(_) => (),
        }
    }
    // Closing the channel gives the message back.
    let closed = link.with_timeout(channel.close(200, "arrived".into()), "receive").await?;
    closed.map_err(failed).map(|()| true)
}

/// The state of a transport that consumes; `None` while none does.
fn consuming(pairs: &Weak<Pairs>) -> Option<Arc<TransportState>> {
    let pairs = pairs.upgrade()?;
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
        if !left.is_zero() {
            self.look_up_route(queue, "receive").await?;
        }
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
