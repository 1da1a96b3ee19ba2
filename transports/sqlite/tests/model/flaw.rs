//! The negative control: a subscription that violates the contract.

use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bezoar_core::{Delivery, Settlement, Subscription, TransportError};

/// A deliberate flaw of one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Flaw {
    None,
    ClockAhead,
    LosesSettlements,
    CountsReleasesAsNothing,
    HidesRedelivery,
    AcceptsStaleReceipts,
}

impl Flaw {
    /// Every flaw.
    pub(crate) const ALL: [Self; 5] = [
        Self::ClockAhead,
        Self::LosesSettlements,
        Self::CountsReleasesAsNothing,
        Self::HidesRedelivery,
        Self::AcceptsStaleReceipts,
    ];
}

#[derive(Debug)]
pub(crate) struct Flawed {
    pub(crate) inner: Box<dyn Subscription>,
    pub(crate) flaw: Flaw,
}

#[async_trait]
impl Subscription for Flawed {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let mut received = self.inner.receive(max, wait).await?;
        if self.flaw == Flaw::HidesRedelivery {
            received.iter_mut().for_each(|delivery| delivery.redelivered = false);
        }
        Ok(received)
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let count = batch.len();
        match self.flaw {
            Flaw::LosesSettlements => (0..count).map(|_| Ok(())).collect(),
            Flaw::AcceptsStaleReceipts => {
                self.inner.settle(batch).await;
                (0..count).map(|_| Ok(())).collect()
            }
            Flaw::CountsReleasesAsNothing => {
                let uncounted = |settlement| match settlement {
                    Settlement::Release { after } => Settlement::Retry { after, tries: vec![] },
                    other => other,
                };
                let batch = batch.into_iter().map(|(held, it)| (held, uncounted(it)));
                self.inner.settle(batch.collect()).await
            }
            _ => self.inner.settle(batch).await,
        }
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        self.inner.extend(deliveries, lease).await
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        self.inner.close().await
    }
}
