//! The worker that cases use: an open queue, with assertions for the promises that every step
//! relies on.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{
    Capabilities, Delivery, ErrorKind, Message, Settlement, Subscription, TransportError,
};

use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

use crate::{pace::Pace, samples};

/// How long a worker waits for a message that must be there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How often to poll a queue whose transport does not wake a waiting receive.
const POLL: Duration = Duration::from_millis(10);

pub(crate) struct Worker {
    pub(crate) subscription: Box<dyn Subscription>,
    lag: Duration,
    wakes: bool,
    pace: Arc<Pace>,
}

impl Worker {
    pub(crate) fn new(
        subscription: Box<dyn Subscription>,
        can: &Capabilities,
        pace: Arc<Pace>,
    ) -> Self {
        Self { subscription, lag: can.lag, wakes: can.wakes, pace }
    }

    /// Receives messages. Polls where a receive may return before its wait is over.
    pub(crate) async fn receive(&self, max: u32, wait: Duration) -> Vec<Delivery> {
        self.pace.plan(wait, self.poll(max, wait)).await
    }

    async fn poll(&self, max: u32, wait: Duration) -> Vec<Delivery> {
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
        assert_eq!(taken.len(), count, "a receive never returns more than requested");
        taken
    }

    /// Receives and completes the next `count` messages, which must be there.
    pub(crate) async fn consume(&self, count: usize) -> Vec<Message> {
        let mut consumed = Vec::new();
        while consumed.len() < count {
            let some = self.take((count - consumed.len()).min(16)).await;
            consumed.extend(some.iter().map(|delivery| (*delivery.message).clone()));
            yield_now().await; // lets others receive while this handler runs
            self.complete(some).await;
        }
        consumed
    }

    /// Receives and completes every message that is ready.
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

    /// Asserts that there is no message to receive, because of this promise.
    pub(crate) async fn none(&self, promise: &str) {
        let received = self.receive(16, self.lag).await;
        let ids = samples::ids(received.iter().map(|delivery| &*delivery.message));
        assert!(ids.is_empty(), "{promise}; received {ids:?}");
    }

    pub(crate) async fn complete(&self, deliveries: Vec<Delivery>) {
        let batch = deliveries.into_iter().map(|delivery| (delivery, Settlement::Complete));
        for result in self.subscription.settle(batch.collect()).await {
            result.expect("a leased delivery can be completed");
        }
    }

    /// Settles a delivery whose lease is valid.
    pub(crate) async fn settle(&self, delivery: Delivery, settlement: Settlement) {
        self.try_settle(delivery, settlement).await.expect("a leased delivery can be settled");
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

    /// Asserts that settling this delivery is refused because its lease was lost.
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

    /// Renews a lease that is valid.
    pub(crate) async fn extend(&self, delivery: &mut Delivery, lease: Duration) {
        self.try_extend(delivery, lease).await.expect("a leased delivery can be extended");
    }

    pub(crate) async fn close(self) {
        self.subscription.close().await.expect("a queue can be closed");
    }
}

/// Asserts that a stale receipt is refused as a lost lease.
#[track_caller]
pub(crate) fn assert_lease_lost(result: Result<(), TransportError>) {
    let kind = result.expect_err("a stale receipt is refused").kind;
    assert_eq!(kind, ErrorKind::LeaseLost, "a stale receipt is refused as a lost lease");
}
