//! Returns delayed messages from `bezoar.unroutable` to their queues, if these exist.
//!
//! A delayed message gets there when its delay ends and the broker finds no route to its queue: because that was deleted,
//! but also for a moment while a node of a cluster restarts. The dead-letter feed of `bezoar.unroutable` returns those of
//! the second kind. Whoever consumes reads it now and then, so that this needs no gateway. Without a gateway, messages of
//! deleted queues stay in front: if there are more than the broker sends ahead, those behind them are not reached.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use bezoar_core::{DeadLetterFeed, ErrorKind, Message, QueueName, TransportError};
use tokio::time::sleep;

use super::dead_letter_feed::RabbitDeadLetterFeed;
use crate::{
    consuming::consumer_pair::ConsumerPair,
    error::error,
    publishing::publisher::{Patience, Publication, Published},
    topology::UNROUTABLE,
    transport::TransportState,
    wire::origin,
};

/// How often the queue is read. Doubled up to the longest while nothing can be returned: each time counts as a delivery of
/// every message that stays.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How long the broker may take to send what it has.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Returns what can be returned; whether nothing stays. What stays goes back when the feed is dropped.
async fn return_all(inner: Arc<TransportState>) -> Result<bool, TransportError> {
    let queue = QueueName::new(UNROUTABLE).expect("it is a valid name");
    if inner.ready_count(&queue, UNROUTABLE, "receive").await? == 0 {
        return Ok(true);
    }
    let feed = RabbitDeadLetterFeed::open(inner, queue).await?;
    let mut nothing_stays = true;
    while !feed.next(NonZeroU32::MAX, PATIENCE).await?.is_empty() {
        nothing_stays = false;
    }
    Ok(nothing_stays)
}

impl TransportState {
    /// Sends a delayed message to its queue directly, whatever exchange it came by: other queues behind that exchange have
    /// their copies. `false` if the queue does not exist.
    ///
    /// # Errors
    ///
    /// If it is not known whether it was stored, or whether the queue exists.
    pub(super) async fn return_to(
        &self,
        queue: &QueueName,
        message: &Message,
    ) -> Result<bool, TransportError> {
        let Ok((raw, message)) = origin::unpack(queue, message) else { return Ok(false) };
        let properties = origin::replay_target(&raw, &message, &self.user).to_queue();
        let (exchange, key) = ("".into(), queue.as_str().into());
        let copy = Publication { exchange, key, properties, body: raw.body };
        let sent = self.publisher.publish(vec![copy], Patience::ThroughAlarms, "receive").await;
        match sent.into_iter().next().expect("one outcome for one message")? {
            Published::Stored => Ok(true),
            Published::NotRouted => {
                match self.ready_count(queue, queue.as_str(), "receive").await {
                    Err(TransportError { kind: ErrorKind::QueueNotFound(_), .. }) => Ok(false),
                    Err(failed) => Err(failed),
                    Ok(_) => Err(error(ErrorKind::Unavailable, "receive")
                        .with_source("the broker finds no route to a queue that exists")),
                }
            }
        }
    }
}
