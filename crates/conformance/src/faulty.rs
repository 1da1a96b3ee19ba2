//! A transport that fails on purpose.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Delivery, Destination, ErrorKind, Outgoing, QueueName, Settlement,
    SubscribeOptions, Subscription, Transport, TransportError,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Decides which fault to inject into the next operation.
pub type Plan = Arc<dyn Fn(Operation) -> Fault + Send + Sync>;

/// An operation of a transport that is about to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The method that is called.
    pub step: Step,
    /// The queue or topic.
    pub queue: QueueName,
}

/// A method of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after the methods of the contract")]
#[non_exhaustive]
pub enum Step {
    Send,
    Subscribe,
    Receive,
    Settle,
    Extend,
    Close,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Subscribe => "subscribe",
            Self::Receive => "receive",
            Self::Settle => "settle",
            Self::Extend => "extend",
            Self::Close => "close",
        }
    }
}

/// The fault that is injected into an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No fault.
    None,
    /// The operation is not executed and fails with `Unavailable`.
    Before,
    /// The operation is executed but its response is lost: `OutcomeUnknown`.
    After,
    /// The operation is executed after a delay.
    Delay(Duration),
}

/// A plan that makes about `rate` of all operations fail. The same seed and order give the same
/// faults.
pub fn seeded(seed: u64, rate: f64) -> Plan {
    let random = Mutex::new(StdRng::seed_from_u64(seed));
    Arc::new(move |_| {
        let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
        if !random.random_bool(rate) {
            return Fault::None;
        }
        match random.random_range(0..3) {
            0 => Fault::Before,
            1 => Fault::After,
            _ => Fault::Delay(Duration::from_millis(random.random_range(1..50))),
        }
    })
}

/// A transport that injects the faults of a plan. Without faults it behaves like the inner
/// transport.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Transport>,
    plan: Plan,
}

impl Faulty {
    /// The transport `inner` with the faults of `plan`.
    pub fn new(inner: Arc<dyn Transport>, plan: Plan) -> Self {
        Self { inner, plan }
    }

    /// Runs `work` with the planned fault. A batch fails as a whole.
    async fn with_fault<T>(
        &self,
        step: Step,
        queue: &QueueName,
        work: impl Future<Output = T>,
    ) -> Result<T, ErrorKind> {
        match (self.plan)(Operation { step, queue: queue.clone() }) {
            Fault::None => {}
            Fault::Before => return Err(ErrorKind::Unavailable),
            Fault::After => {
                work.await;
                return Err(ErrorKind::OutcomeUnknown);
            }
            Fault::Delay(delay) => tokio::time::sleep(delay).await,
        }
        Ok(work.await)
    }

    fn error(&self, kind: ErrorKind, step: Step) -> TransportError {
        TransportError::new(kind, self.inner.capabilities().transport, step.name())
    }

    /// Returns the same failure `count` times.
    fn all_failed<T>(
        &self,
        kind: ErrorKind,
        step: Step,
        count: usize,
    ) -> Vec<Result<T, TransportError>> {
        (0..count).map(|_| Err(self.error(kind.clone(), step))).collect()
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let (Destination::Queue(queue) | Destination::Topic { name: queue, .. }) = to else {
            return self.inner.send(to, batch).await;
        };
        let sent = self.with_fault(Step::Send, queue, self.inner.send(to, batch)).await;
        sent.unwrap_or_else(|kind| self.all_failed(kind, Step::Send, batch.len()))
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        let inner = self.inner.subscribe(queue, options);
        let opened = self.with_fault(Step::Subscribe, queue, inner).await;
        let inner = opened.map_err(|kind| self.error(kind, Step::Subscribe))??;
        Ok(Box::new(FaultySubscription { inner, faulty: self.clone(), queue: queue.clone() }))
    }
}

#[derive(Debug)]
struct FaultySubscription {
    inner: Box<dyn Subscription>,
    faulty: Faulty,
    queue: QueueName,
}

impl FaultySubscription {
    async fn attempt<T>(
        &self,
        step: Step,
        work: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let done = self.faulty.with_fault(step, &self.queue, work).await;
        done.map_err(|kind| self.faulty.error(kind, step))?
    }
}

#[async_trait]
impl Subscription for FaultySubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        self.attempt(Step::Receive, self.inner.receive(max, wait)).await
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let count = batch.len();
        let work = self.inner.settle(batch);
        let settled = self.faulty.with_fault(Step::Settle, &self.queue, work).await;
        settled.unwrap_or_else(|kind| self.faulty.all_failed(kind, Step::Settle, count))
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        let count = deliveries.len();
        let work = self.inner.extend(deliveries, lease);
        let extended = self.faulty.with_fault(Step::Extend, &self.queue, work).await;
        extended.unwrap_or_else(|kind| self.faulty.all_failed(kind, Step::Extend, count))
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        let Self { inner, faulty, queue } = *self;
        let closed = faulty.with_fault(Step::Close, &queue, inner.close()).await;
        closed.map_err(|kind| faulty.error(kind, Step::Close))?
    }
}
