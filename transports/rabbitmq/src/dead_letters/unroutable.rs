//! Returns delayed messages from `bezoar.unroutable` to their queues, if these exist.
//!
//! A delayed message gets there when its delay ends and the broker finds no route to its queue: because that was deleted,
//! but also for a moment while a node of a cluster restarts. The dead-letter feed of `bezoar.unroutable` returns those of
//! the second kind. Whoever consumes reads it now and then, so that this needs no gateway.

use std::{
    num::NonZeroU32,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use bezoar_core::{DeadLetterFeed, QueueName, TransportError};
use tokio::time::sleep;

use super::dead_letter_feed::RabbitDeadLetterFeed;
use crate::{topology::UNROUTABLE, transport::TransportState};

/// How long a message waits there at most, plus what it takes to send it.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long the broker may take to send what it has.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the task, unless it runs. It ends with the transport, or when the broker refuses: if the queue does not exist,
/// or may not be read.
pub(crate) fn watch(inner: &Arc<TransportState>) {
    if inner.watches_unroutable.swap(true, Ordering::SeqCst) {
        return;
    }
    let (running, inner) = (inner.watches_unroutable.clone(), Arc::downgrade(inner));
    tokio::spawn(async move {
        run(&inner).await;
        running.store(false, Ordering::SeqCst);
    });
}

async fn run(inner: &Weak<TransportState>) {
    loop {
        sleep(INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        match return_all(inner).await {
            Err(failed) if !failed.is_transient() => {
                tracing::debug!(%failed, "{UNROUTABLE} is not watched");
                return;
            }
            _ => (),
        }
    }
}

/// Letters whose queue is missing go back when the feed is dropped.
async fn return_all(inner: Arc<TransportState>) -> Result<(), TransportError> {
    let queue = QueueName::new(UNROUTABLE).expect("it is a valid name");
    if inner.ready_count(&queue, UNROUTABLE, "receive").await? == 0 {
        return Ok(());
    }
    let feed = RabbitDeadLetterFeed::open(inner, queue).await?;
    while !feed.next(NonZeroU32::MAX, PATIENCE).await?.is_empty() {}
    Ok(())
}
