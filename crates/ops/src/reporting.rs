//! Reports to a catalogue what a broker cannot: that replayed messages are completed, and why messages are
//! rejected.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Delivery, Destination, Outgoing, QueueName, Settlement,
    SubscribeOptions, Subscription, Transport, TransportError,
    catalogue::{Catalogue, CatalogueError},
};

/// A transport that reports to a catalogue when a replayed message is completed, and why a message is
/// rejected.
///
/// The catalogue is informed before the broker: after a crash in between, the message is processed again, flagged as
/// redelivered, and no outcome is lost. Messages that were not replayed have no overhead.
#[derive(Debug, Clone)]
pub struct Reporting {
    inner: Arc<dyn Transport>,
    catalogue: Arc<dyn Catalogue>,
    announces: bool,
}

impl Reporting {
    /// Wraps a transport to report to `catalogue`.
    pub fn new(inner: Arc<dyn Transport>, catalogue: Arc<dyn Catalogue>) -> Self {
        Self { inner, catalogue, announces: false }
    }

    /// For a transport that dead-letters without reason and ledger: stores both in the catalogue
    /// first.
    pub fn announcing(self) -> Self {
        Self { announces: true, ..self }
    }
}

#[async_trait]
impl Transport for Reporting {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        self.inner.send(to, batch).await
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        let inner = self.inner.subscribe(queue, options).await?;
        let (to, queue) = (self.clone(), queue.clone());
        Ok(Box::new(Reported { inner, to, queue }))
    }
}

#[derive(Debug)]
struct Reported {
    inner: Box<dyn Subscription>,
    to: Reporting,
    queue: QueueName,
}

impl Reported {
    async fn report(&self, batch: &[(Delivery, Settlement)]) -> Result<(), CatalogueError> {
        let (mut done, mut dying) = (Vec::new(), Vec::new());
        for (Delivery { message, .. }, settlement) in batch {
            match settlement {
                Settlement::Complete => {
                    done.extend(message.ledger.replay.map(|replay| (replay, message.id.clone())));
                }
                Settlement::DeadLetter { reason, .. } if self.to.announces => {
                    let mut message = (**message).clone();
                    settlement.record(&mut message.ledger);
                    dying.push((message, reason.clone()));
                }
                _ => (),
            }
        }
        if !dying.is_empty() {
            self.to.catalogue.announce(&self.queue, dying).await?;
        }
        if !done.is_empty() {
            self.to.catalogue.completed(&self.queue, done).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Subscription for Reported {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        self.inner.receive(max, wait).await
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        if let Err(error) = self.report(&batch).await {
            // The messages are settled anyway. A replay may then wait forever, which an operator can see and cancel; a
            // rejected message has only the broker's reason.
            tracing::warn!(queue = %self.queue, %error, "outcomes could not be reported to the catalogue");
        }
        self.inner.settle(batch).await
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
