//! Receiving and settling.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{Delivery, ErrorKind, MAX_DELAY, Settlement, Subscription, TransportError};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{error::error, lane::Lane, settle::settle};

/// How long a receive pauses before it tries again to reach a broker that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct RabbitSubscription {
    lane: Option<Arc<Lane>>,
}

impl RabbitSubscription {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self { lane: Some(lane) }
    }

    fn lane(&self) -> &Arc<Lane> {
        self.lane.as_ref().expect("it is there until it is closed or dropped")
    }
}

impl Drop for RabbitSubscription {
    fn drop(&mut self) {
        if let (Some(lane), Ok(runtime)) = (self.lane.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(lane.retire());
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
        let (lane, max) = (self.lane(), max.get() as usize);
        let _receiving = lane.begin_receive();
        loop {
            // Listening begins before looking, so that nothing that arrives in between goes unnoticed.
            let mut arrived = std::pin::pin!(lane.arrived.notified());
            arrived.as_mut().enable();
            // Between looking and returning nothing is awaited: dropped before, nothing was handed out.
            if let Some(fault) = lane.take_fault() {
                return Err(fault);
            }
            let some = lane.hand_out(max);
            if !some.is_empty() {
                lane.resume_quarantine();
                return Ok(some);
            }
            match lane.resume().await {
                Err(failed) if !may_pass(&failed, deadline) => {
                    lane.take_fault(); // the same, found by a consumer that ended: told once
                    return Err(failed);
                }
                Err(_) => sleep(AWAY_PAUSE).await,
                Ok(()) => _ = timeout_at(deadline, arrived).await,
            }
            if Instant::now() >= deadline {
                return Ok(lane.hand_out(max));
            }
        }
    }

    /// Runs to its end even if the future is dropped: a copy whose original is not acknowledged is two.
    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let count = batch.len();
        let settling = tokio::spawn(settle(self.lane().clone(), batch));
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
            let lane = self.lane();
            let line = &lane.consumer(lane.source_of(&delivery.receipt)).line;
            let alive = line.live_channel().is_some();
            match alive && line.leases(|leases| leases.is_held(&delivery.receipt)) {
                true => Ok(()),
                false => Err(error(ErrorKind::LeaseLost, "extend")),
            }
        };
        deliveries.iter_mut().map(is_held).collect()
    }

    async fn close(mut self: Box<Self>) -> Result<(), TransportError> {
        if let Some(lane) = self.lane.take() {
            // To its end even if the future is dropped: a copy whose original is not acknowledged is two.
            let _ = tokio::spawn(lane.close()).await;
        }
        Ok(())
    }
}

/// Whether it may pass in time by itself.
fn may_pass(failed: &TransportError, deadline: Instant) -> bool {
    failed.is_transient() && Instant::now() + AWAY_PAUSE < deadline
}
