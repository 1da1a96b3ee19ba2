//! A worker as the cases see one: an open queue, with the promises that every step relies on.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{
    Capabilities, Delivery, ErrorKind, Message, Settlement, Subscription, TransportError,
};

use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

use crate::samples;

/// How long a worker waits for a message that must be there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The pause between two looks at a queue whose transport does not wake who waits.
const POLL: Duration = Duration::from_millis(10);

pub(crate) struct Worker {
    pub(crate) subscription: Box<dyn Subscription>,
    lag: Duration,
    wakes: bool,
}

impl Worker {
    pub(crate) fn new(subscription: Box<dyn Subscription>, can: &Capabilities) -> Self {
        Self { subscription, lag: can.lag, wakes: can.wakes }
    }

    /// Receives, and polls where a receive may end before its wait.
    pub(crate) async fn receive(&self, max: u32, wait: Duration) -> Vec<Delivery> {
        let max = NonZeroU32::new(max).expect("a case asks for at least one");
        let started = Instant::now();
        loop {
            let received = self.subscription.receive(max, wait).await.expect("receiving works");
            if !received.is_empty() || self.wakes || started.elapsed() >= wait {
                return received;
            }
            sleep(POLL).await;
        }
    }

    /// The next message, which must be there.
    pub(crate) async fn one(&self) -> Delivery {
        self.take(1).await.pop().expect("one was taken")
    }

    /// The next `count` messages, which must be there.
    pub(crate) async fn take(&self, count: usize) -> Vec<Delivery> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let more = self.receive((count - taken.len()) as u32, PATIENCE).await;
            assert!(!more.is_empty(), "got {} of {count} messages that must be there", taken.len());
            taken.extend(more);
        }
        assert_eq!(taken.len(), count, "never more are received than asked for");
        taken
    }

    /// Takes and completes the next `count` messages, which must be there.
    pub(crate) async fn consume(&self, count: usize) -> Vec<Message> {
        let mut consumed = Vec::new();
        while consumed.len() < count {
            let some = self.take((count - consumed.len()).min(16)).await;
            consumed.extend(some.iter().map(|delivery| (*delivery.message).clone()));
            yield_now().await; // a handler at work, while others receive
            self.complete(some).await;
        }
        consumed
    }

    /// Takes and completes whatever there is.
    pub(crate) async fn consume_all(&self) -> Vec<Message> {
        const MOST: usize = 10_000;
        let mut consumed = Vec::new();
        while consumed.len() < MOST {
            let some = self.receive(16, self.lag).await;
            if some.is_empty() {
                break;
            }
            consumed.extend(some.iter().map(|delivery| (*delivery.message).clone()));
            self.complete(some).await;
        }
        consumed
    }

    /// There is no message to receive, because of this promise.
    pub(crate) async fn none(&self, promise: &str) {
        let received = self.receive(16, self.lag).await;
        let ids = samples::ids(received.iter().map(|delivery| &*delivery.message));
        assert!(ids.is_empty(), "{promise}; received {ids:?}");
    }

    pub(crate) async fn complete(&self, deliveries: Vec<Delivery>) {
        let batch = deliveries.into_iter().map(|delivery| (delivery, Settlement::Complete));
        for result in self.subscription.settle(batch.collect()).await {
            result.expect("a held delivery can be completed");
        }
    }

    /// Settles a delivery whose lease is held.
    pub(crate) async fn settle(&self, delivery: Delivery, settlement: Settlement) {
        self.try_settle(delivery, settlement).await.expect("a held delivery can be settled");
    }

    pub(crate) async fn try_settle(
        &self,
        delivery: Delivery,
        settlement: Settlement,
    ) -> Result<(), TransportError> {
        let mut results = self.subscription.settle(vec![(delivery, settlement)]).await;
        assert_eq!(results.len(), 1, "one delivery has one result");
        results.pop().expect("there is one")
    }

    /// Settling with this delivery is refused, because its lease was lost.
    pub(crate) async fn refused(&self, delivery: Delivery, settlement: Settlement) {
        assert_lease_lost(self.try_settle(delivery, settlement).await);
    }

    /// Renews the lease of one delivery.
    pub(crate) async fn try_extend(
        &self,
        delivery: &mut Delivery,
        lease: Duration,
    ) -> Result<(), TransportError> {
        let mut results = self.subscription.extend(std::slice::from_mut(delivery), lease).await;
        assert_eq!(results.len(), 1, "one delivery has one result");
        results.pop().expect("there is one")
    }

    /// Renews the lease of a delivery that is held.
    pub(crate) async fn extend(&self, delivery: &mut Delivery, lease: Duration) {
        self.try_extend(delivery, lease).await.expect("a held delivery can be extended");
    }

    pub(crate) async fn close(self) {
        self.subscription.close().await.expect("a queue can be closed");
    }
}

/// A stale receipt is refused as one.
#[track_caller]
pub(crate) fn assert_lease_lost(result: Result<(), TransportError>) {
    let kind = result.expect_err("a stale receipt is refused").kind;
    assert_eq!(kind, ErrorKind::LeaseLost, "a stale receipt is refused as a lost lease");
}
