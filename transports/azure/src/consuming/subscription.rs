//! An open queue.
//!
//! If the caller's future is dropped, renewals and settlements still end, and the lease still learns its new pop receipt.
//! `close` waits for them.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Delivery, ErrorKind, Ledger, MAX_DELAY, Message, Reason, Receipt, Settlement, SubscribeOptions,
    Subscription, TransportError,
};
use jiff::Timestamp;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tokio_util::task::TaskTracker;

use super::{
    fetcher::{Arrived, Fetcher},
    leases::{Lease, Leases},
    settle::Settler,
};
use crate::{
    claim_check::NoBody,
    connection::queue_client::{MOST_PER_FETCH, Queue},
    error::error,
    in_parallel::in_parallel,
    transport::TransportState,
    uninterrupted::Uninterrupted,
    unreadable,
    wire::stored_text::{self, Content},
};

#[derive(Debug)]
pub(crate) struct AzureSubscription {
    fetcher: Fetcher,
    settler: Arc<Settler>,
    leases: Arc<Leases>,
    max_bytes: usize,
    tasks: TaskTracker,
    /// Room for messages that are settled without a handler: those that cannot be read.
    background: Arc<Semaphore>,
}

/// How many messages that cannot be read are settled at a time: two fetches.
const MOST_IN_BACKGROUND: u32 = 2 * MOST_PER_FETCH;

impl AzureSubscription {
    pub(crate) fn new(
        state: Arc<TransportState>,
        queue: Arc<Queue>,
        poison: Arc<Queue>,
        options: SubscribeOptions,
    ) -> Self {
        let fetcher = Fetcher::new(&state, queue.clone(), options.lease);
        let settler = Arc::new(Settler { state, queue, poison, lease: options.lease });
        let (leases, tasks) = (Arc::default(), TaskTracker::new());
        let background = Arc::new(Semaphore::new(MOST_IN_BACKGROUND as usize));
        Self { fetcher, settler, leases, max_bytes: options.max_bytes, tasks, background }
    }

    /// The delivery of a message; `None` if it cannot be read. An error if its body cannot be read now.
    fn deliver(&self, mut arrived: Arrived) -> Result<Option<Delivery>, TransportError> {
        let options = &self.settler.state.options;
        let mut message = match stored_text::read(&arrived.fetched, options.foreign_text) {
            Content::Message(message) => *message,
            content => {
                let most = options.limits.max_dequeue_count;
                if let Some(reason) = unreadable::judge(&content, &arrived.fetched, most) {
                    let deliveries = arrived.fetched.dequeue_count;
                    let ledger = Ledger::restored(deliveries, 0, 0, 0, Vec::new());
                    self.give_up(arrived, ledger, reason);
                }
                return Ok(None);
            }
        };
        match arrived.body.take() {
            None => (),
            Some(Ok(body)) => message.body = body.into(),
            Some(Err(NoBody::Gone(reason))) => {
                message.ledger.acquire();
                self.give_up(arrived, message.ledger, reason);
                return Ok(None);
            }
            Some(Err(NoBody::NoRoom)) => {
                self.hand_back(arrived, message, Duration::ZERO);
                return Ok(None);
            }
            Some(Err(NoBody::Unavailable(fault))) => {
                self.hand_back(arrived, message, options.limits.longest_poll);
                return Err(fault.repeatable(&self.settler.queue.name, "receive"));
            }
        }
        let until = self.timestamp(arrived.until);
        let receipt = self.leases.open(arrived, options.clock.steady());
        Ok(Some(Delivery::new(message, receipt, Some(until))))
    }

    /// The deliveries of the messages that can be read. An error only if there is none.
    fn deliver_all(&self, arrived: Vec<Arrived>) -> Result<Vec<Delivery>, TransportError> {
        let (mut deliveries, mut failed) = (Vec::new(), None);
        for it in arrived {
            match self.deliver(it) {
                Ok(delivery) => deliveries.extend(delivery),
                Err(error) => failed = Some(error),
            }
        }
        failed.filter(|_| deliveries.is_empty()).map_or(Ok(deliveries), Err)
    }

    /// Dead-letters a message that no handler can get. If that fails, it is fetched and tried again.
    fn give_up(&self, arrived: Arrived, ledger: Ledger, reason: Reason) {
        let (queue, id) = (&self.settler.queue.name, &arrived.fetched.id);
        tracing::warn!(%queue, azure_id = %id, %reason, "dead-lettering a message that cannot be read");
        let settlement = Settlement::DeadLetter { reason, tries: Vec::new() };
        self.settle_in_background(arrived, ledger, settlement);
    }

    /// Returns a message to its queue without an attempt, because its body is not available now.
    fn hand_back(&self, arrived: Arrived, message: Message, after: Duration) {
        let mut ledger = message.ledger;
        ledger.acquire();
        self.settle_in_background(arrived, ledger, Settlement::Release { after });
    }

    /// If there is no room, which [`room`](Self::room) makes unlikely, the message returns when its lease expires.
    fn settle_in_background(&self, arrived: Arrived, ledger: Ledger, settlement: Settlement) {
        let Ok(room) = self.background.clone().try_acquire_owned() else { return };
        let (settler, lease) = (self.settler.clone(), Lease::new(arrived));
        self.tasks.spawn(async move {
            let _ = settler.settle(&lease, ledger, &settlement).await;
            drop(room);
        });
    }

    /// Waits until a whole fetch of messages that cannot be read could be settled. Nothing is fetched before, because
    /// it would use up its lease.
    async fn room(&self, deadline: Instant) -> bool {
        let room = self.background.acquire_many(MOST_PER_FETCH);
        timeout_at(deadline, room).await.is_ok()
    }

    /// How many requests of one call run at a time.
    fn concurrency(&self) -> u32 {
        self.settler.state.options.limits.publish_concurrency
    }

    /// A time of the steady clock as a time of day.
    fn timestamp(&self, steady: Duration) -> Timestamp {
        let clock = &self.settler.state.options.clock;
        let left = steady.saturating_sub(clock.steady());
        clock.now().checked_add(left).unwrap_or(Timestamp::MAX)
    }

    fn settle_one(
        &self,
        delivery: Delivery,
        settlement: Settlement,
    ) -> Uninterrupted<Result<(), TransportError>> {
        let (settler, leases) = (self.settler.clone(), self.leases.clone());
        let settled = async move {
            let receipt = &delivery.receipt;
            let lease =
                leases.find(receipt).ok_or_else(|| error(ErrorKind::LeaseLost, "settle"))?;
            let ledger = delivery.message.ledger.clone();
            let settled = settler.settle(&lease, ledger, &settlement).await;
            if lease.held.lock().await.pop_receipt.is_none() {
                leases.close(receipt);
            }
            settled
        };
        Uninterrupted::new(&self.tasks, settled)
    }

    fn renew(
        &self,
        receipt: Receipt,
        by: Duration,
    ) -> Uninterrupted<Result<Duration, TransportError>> {
        let (settler, leases) = (self.settler.clone(), self.leases.clone());
        let renewed = async move {
            let lease =
                leases.find(&receipt).ok_or_else(|| error(ErrorKind::LeaseLost, "extend"))?;
            let until = settler.renew(&lease, by).await?;
            leases.renewed(&receipt, until);
            Ok(until)
        };
        Uninterrupted::new(&self.tasks, renewed)
    }
}

#[async_trait]
impl Subscription for AzureSubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        loop {
            if !self.room(deadline).await {
                return Ok(Vec::new());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let arrived = self.fetcher.next(max.get(), self.max_bytes, left).await;
            let queue = &self.settler.queue.name;
            let arrived = arrived.map_err(|fault| fault.repeatable(queue, "receive"))?;
            let is_empty = arrived.is_empty();
            let deliveries = self.deliver_all(arrived)?;
            // Messages that cannot be read do not hold up those behind them.
            if is_empty || !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let settle = |(delivery, settlement)| self.settle_one(delivery, settlement);
        in_parallel(batch.into_iter().map(settle).collect(), self.concurrency()).await
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        let renewals = deliveries.iter_mut().map(|delivery| async {
            let until = self.renew(delivery.receipt.clone(), lease).await?;
            delivery.lease_until = Some(self.timestamp(until));
            Ok(())
        });
        in_parallel(renewals.collect(), self.concurrency()).await
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        let waiting = self.fetcher.take_back().await;
        // A message whose body is not available is released too.
        let batch = self.deliver_all(waiting).unwrap_or_default();
        let release = |delivery| (delivery, Settlement::Release { after: Duration::ZERO });
        let released = self.settle(batch.into_iter().map(release).collect()).await;
        self.tasks.close();
        self.tasks.wait().await;
        released.into_iter().collect()
    }
}
