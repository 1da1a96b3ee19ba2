//! Queues in memory whose operations a test can hold up, refuse or count.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar::{
    Delivery, ErrorKind, QueueAdmin, QueueName, Settlement, Subscription, Transport,
    TransportError,
    memory::{MemoryTransport, Options},
    testing::VirtualClock,
};
use bezoar_conformance::Intercept;

type Settle = dyn Fn(&Settlement) -> Answer + Send + Sync;
type Extend = dyn Fn() -> Answer + Send + Sync;

/// What an operation does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// It works.
    Works,
    /// It is refused, and not done.
    Refused(ErrorKind),
    /// It takes this long, and works.
    After(Duration),
    /// It takes this long, and is not done.
    UnavailableAfter(Duration),
    /// It never ends.
    Hangs,
    /// It is done, and there is no result.
    NoResult,
}

/// A transport that does what a test says.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) memory: MemoryTransport,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) settle: Arc<Settle>,
    pub(crate) extend: Arc<Extend>,
    /// The messages whose next renewal finds their lease lost.
    pub(crate) lost: Arc<Mutex<Vec<String>>>,
    pub(crate) subscribe: Answer,
    /// By how many more messages than were asked for a receive gives.
    pub(crate) surplus: u32,
    pub(crate) closed: Arc<AtomicU32>,
}

impl Scripted {
    /// An empty queue `lab`, and everything works.
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(VirtualClock::default());
        let options = Options { clock: clock.clone(), ..Options::default() };
        let memory = MemoryTransport::new(options);
        memory.provision(&lab()).await.unwrap();
        Self {
            memory,
            clock,
            settle: Arc::new(|_| Answer::Works),
            extend: Arc::new(|| Answer::Works),
            lost: Arc::default(),
            subscribe: Answer::Works,
            surplus: 0,
            closed: Arc::default(),
        }
    }

    /// Lets the next renewal of a message find its lease lost; until it ends by itself, nobody else has the message.
    pub(crate) fn lose(&self, id: &str) {
        self.lost.lock().unwrap().push(id.to_owned());
    }

    fn has_lost(&self, delivery: &Delivery) -> bool {
        let mut lost = self.lost.lock().unwrap();
        let found = lost.iter().position(|id| *id == delivery.message.id.as_str());
        found.map(|place| lost.swap_remove(place)).is_some()
    }
}

pub(crate) fn lab() -> QueueName {
    QueueName::new("lab").unwrap()
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

fn refused(kind: &ErrorKind) -> TransportError {
    TransportError::new(kind.clone(), "scripted", "settle")
}

/// Waits as the answer says; an error if it is refused.
async fn answer(answer: &Answer) -> Result<(), TransportError> {
    match answer {
        Answer::Works | Answer::NoResult => (),
        Answer::Refused(kind) => return Err(refused(kind)),
        Answer::After(delay) => tokio::time::sleep(*delay).await,
        Answer::UnavailableAfter(delay) => {
            tokio::time::sleep(*delay).await;
            return Err(refused(&ErrorKind::Unavailable));
        }
        Answer::Hangs => std::future::pending().await,
    }
    Ok(())
}

#[async_trait]
impl Intercept for Scripted {
    fn inner(&self) -> &dyn Transport {
        &self.memory
    }

    async fn opening(&self) -> Result<(), TransportError> {
        answer(&self.subscribe).await
    }

    async fn receive(
        &self,
        inner: &dyn Subscription,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        inner.receive(max.saturating_add(self.surplus), wait).await
    }

    /// Each batch is as slow as its slowest, and each delivery is answered for itself.
    async fn settle(
        &self,
        inner: &dyn Subscription,
        batch: Vec<(Delivery, Settlement)>,
    ) -> Vec<Result<(), TransportError>> {
        let mut results = Vec::new();
        for (delivery, settlement) in batch {
            let said = (self.settle)(&settlement);
            match answer(&said).await {
                Err(error) => results.push(Err(error)),
                Ok(()) => {
                    let done = inner.settle(vec![(delivery, settlement)]).await;
                    results.extend(done.into_iter().filter(|_| said != Answer::NoResult));
                }
            }
        }
        results
    }

    async fn extend(
        &self,
        inner: &dyn Subscription,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        match answer(&(self.extend)()).await {
            Ok(()) => {
                let mut results = Vec::new();
                for delivery in deliveries {
                    results.extend(match self.has_lost(delivery) {
                        true => vec![Err(refused(&ErrorKind::LeaseLost))],
                        false => inner.extend(std::slice::from_mut(delivery), lease).await,
                    });
                }
                results
            }
            Err(error) => deliveries.iter().map(|_| Err(error.again())).collect(),
        }
    }

    fn closing(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}
