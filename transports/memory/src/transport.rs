//! Sending and receiving.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Counting, Delivery, Destination, ErrorKind, MAX_DELAY, Outgoing,
    QueueName, Settlement, SettlementDurability, SubscribeOptions, Subscription, Transport,
    TransportError,
};
use jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    Options,
    error::{TRANSPORT, error, no_queue},
    state::State,
};

/// Queues in memory. Cheap to clone: all clones share the same queues.
#[derive(Debug, Clone, Default)]
pub struct MemoryTransport {
    state: Arc<Mutex<State>>,
    pub(crate) options: Arc<Options>,
}

impl MemoryTransport {
    /// A transport without queues.
    pub fn new(options: Options) -> Self {
        Self { state: Arc::default(), options: Arc::new(options) }
    }

    /// Runs one step on the state at the current time. A poisoned lock is ignored, because an
    /// incomplete step is no reason to stop all users.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let result = step(&mut state, self.options.clock.now());
        let moves = std::mem::take(&mut state.moves);
        if let Some(watch) = &self.options.watch {
            moves.into_iter().for_each(|transition| watch(transition));
        }
        result
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport for MemoryTransport {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::new(TRANSPORT, self.options.max_message_bytes);
        can.ordering = true;
        can.ordering_keys = true;
        can.scheduled = Some(MAX_DELAY);
        can.time_to_live = true;
        can.batching = true;
        can.fencing = true;
        can.settlement = SettlementDurability::Durable;
        can.acquired = Counting::Exact;
        can.single_copy = true;
        can.deduplication = true;
        can.wakes = true;
        can.knows_depth = true;
        can.knows_ages = true;
        can.dead_letter_access = true;
        can.dead_letter_feed = true;
        can
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let (queue, checked) = match self.capabilities().check_batch(to, batch) {
            Ok(checked) => checked,
            Err(refused) => return refused,
        };
        let send = |(outgoing, checked): (&Outgoing, Result<Acceptance, TransportError>)| {
            checked?;
            self.step(|state, now| {
                if !state.queues.contains_key(queue) {
                    return Err(no_queue(queue, "send"));
                }
                state.send(queue, outgoing, now).map_err(|kind| error(kind, "send"))
            })
        };
        batch.iter().zip(checked).map(send).collect()
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        if !self.lock().queues.contains_key(queue) {
            return Err(no_queue(queue, "subscribe"));
        }
        Ok(Box::new(MemorySubscription { transport: self.clone(), queue: queue.clone(), options }))
    }
}

#[derive(Debug)]
struct MemorySubscription {
    transport: MemoryTransport,
    queue: QueueName,
    options: SubscribeOptions,
}

#[async_trait]
impl Subscription for MemorySubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY); // a longer wait would overflow the instant
        loop {
            let wake =
                self.transport.lock().queues.get(&self.queue).map(|queue| queue.wake.clone());
            let wake = wake.ok_or_else(|| no_queue(&self.queue, "receive"))?;
            // Subscribes to the signal before the query, so that no message sent in between is
            // missed.
            let mut woken = std::pin::pin!(wake.notified());
            woken.as_mut().enable();
            let (claimed, pause) = self.transport.step(|state, now| {
                let claimed = state.claim(&self.queue, max.get(), &self.options, now);
                let next = state.queues.get(&self.queue).and_then(|queue| queue.next());
                (
                    claimed,
                    next.map_or(Duration::MAX, |next| now.duration_until(next).unsigned_abs()),
                )
            });
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            let pause = pause.min(wait); // never sleeps past the deadline
            let waiting = async {
                tokio::select! { biased; () = woken => (), () = sleep(pause) => () }
            };
            if timeout_at(deadline, waiting).await.is_err() || Instant::now() >= deadline {
                return Ok(Vec::new());
            }
        }
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let settle = |(delivery, settlement)| {
            let done = self
                .transport
                .step(|state, now| state.settle(&self.queue, &delivery, settlement, now));
            if done { Ok(()) } else { Err(error(ErrorKind::LeaseLost, "settle")) }
        };
        batch.into_iter().map(settle).collect()
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        let extend = |delivery: &mut Delivery| {
            let until =
                self.transport.step(|state, now| state.extend(&self.queue, delivery, lease, now));
            delivery.lease_until =
                Some(until.ok_or_else(|| error(ErrorKind::LeaseLost, "extend"))?);
            Ok(())
        };
        deliveries.iter_mut().map(extend).collect()
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        Ok(())
    }
}
