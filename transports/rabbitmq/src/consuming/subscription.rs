//! A subscription to one queue: receive, settle, extend, close.
//!
//! The broker pushes messages to the consumers of `consumer_pair.rs`; `receive` hands out what has arrived. A lease is
//! a message that is not acknowledged on a live channel. It does not expire, so `extend` only checks that it is held.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{Delivery, ErrorKind, MAX_DELAY, Settlement, Subscription, TransportError};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{consuming::consumer_pair::ConsumerPair, consuming::settle::settle, error::error};

/// The pause before `receive` tries again to reach an unavailable broker.
const UNAVAILABLE_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct RabbitSubscription {
    pair: Option<Arc<ConsumerPair>>,
}

impl RabbitSubscription {
    pub(crate) fn new(pair: Arc<ConsumerPair>) -> Self {
        Self { pair: Some(pair) }
    }

    fn pair(&self) -> &Arc<ConsumerPair> {
        self.pair.as_ref().expect("present until the subscription is closed or dropped")
    }
}

impl Drop for RabbitSubscription {
    fn drop(&mut self) {
        if let (Some(pair), Ok(runtime)) = (self.pair.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(pair.shut_down());
        }
    }
}

#[async_trait]
impl Subscription for RabbitSubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        let (pair, max) = (self.pair(), max.get() as usize);
        let _receiving = pair.begin_receive();
        loop {
            // Register for the notification before looking, so that a message that arrives in between is noticed.
            let mut arrived = std::pin::pin!(pair.arrived.notified());
            arrived.as_mut().enable();
            // No await between taking deliveries and returning them: a dropped future has handed out nothing.
            if let Some(fault) = pair.take_background_error() {
                return Err(fault);
            }
            let some = pair.hand_out(max);
            if !some.is_empty() {
                pair.resume_quarantine();
                return Ok(some);
            }
            match pair.resume().await {
                Err(failed) if !may_pass(&failed, deadline) => {
                    pair.take_background_error(); // the same error, found by a consumer that ended: report it once
                    return Err(failed);
                }
                Err(_) => sleep(UNAVAILABLE_PAUSE).await,
                Ok(()) => _ = timeout_at(deadline, arrived).await,
            }
            if Instant::now() >= deadline {
                return Ok(pair.hand_out(max));
            }
        }
    }

    /// Runs to its end even if the future is dropped: a copy whose original is not acknowledged is a duplicate.
    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let count = batch.len();
        let settling = tokio::spawn(settle(self.pair().clone(), batch));
        settling.await.unwrap_or_else(|_| {
            (0..count).map(|_| Err(error(ErrorKind::OutcomeUnknown, "settle"))).collect()
        })
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        _: Duration,
    ) -> Vec<Result<(), TransportError>> {
        let is_held = |delivery: &mut Delivery| {
            let pair = self.pair();
            match pair
                .consumer(pair.source_of(&delivery.receipt))
                .channel
                .is_held(&delivery.receipt)
            {
                true => Ok(()),
                false => Err(error(ErrorKind::LeaseLost, "extend")),
            }
        };
        deliveries.iter_mut().map(is_held).collect()
    }

    async fn close(mut self: Box<Self>) -> Result<(), TransportError> {
        if let Some(pair) = self.pair.take() {
            // In a task of its own, for the same reason as in `settle`.
            let _ = tokio::spawn(pair.close()).await;
        }
        Ok(())
    }
}

/// Whether the error is transient, and there is time to try again.
fn may_pass(failed: &TransportError, deadline: Instant) -> bool {
    failed.is_transient() && Instant::now() + UNAVAILABLE_PAUSE < deadline
}
