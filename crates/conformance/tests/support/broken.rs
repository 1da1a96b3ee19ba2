//! A transport around queues in memory that can have a defect in every operation.

use std::{
    fmt::Debug,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, DeadLetter, DeadLetterAccess, DeadLetterFeed, DeadLetterIds,
    DeadLetterPage, Delivery, Depth, Destination, Finding, ManualClock, Outgoing, QueueAdmin,
    QueueName, Settlement, SubscribeOptions, Subscription, Transport, TransportError,
};
use bezoar_memory::MemoryTransport;

pub(crate) type Outcomes = Vec<Result<(), TransportError>>;
pub(crate) type Acceptances = Vec<Result<Acceptance, TransportError>>;
pub(crate) type Settlements = Vec<(Delivery, Settlement)>;

/// The correct queues inside.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) memory: MemoryTransport,
    pub(crate) clock: Arc<ManualClock>,
}

/// A correct queue, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) queue: QueueName,
    pub(crate) inner: Arc<dyn Subscription>,
    pub(crate) store: Store,
    /// Deliveries that a defect holds back.
    pub(crate) buffer: Mutex<Vec<Delivery>>,
}

/// A defect of a transport: each operation is correct unless the defect overrides it.
#[async_trait]
pub(crate) trait Defect: Debug + Send + Sync + 'static {
    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        honest
    }

    /// Whether a restart loses everything.
    fn forgets(&self) -> bool {
        false
    }

    fn options(&self, asked: SubscribeOptions) -> SubscribeOptions {
        asked
    }

    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        store.memory.send(to, batch).await
    }

    /// Called before a queue is opened.
    async fn opening(&self, _store: &Store, _queue: &QueueName) {}

    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        open.inner.receive(max, wait).await
    }

    async fn settle(&self, open: &Opened, batch: Settlements) -> Outcomes {
        open.inner.settle(batch).await
    }

    async fn extend(
        &self,
        open: &Opened,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Outcomes {
        open.inner.extend(deliveries, lease).await
    }

    async fn provision(&self, store: &Store, queue: &QueueName) -> Result<(), TransportError> {
        store.memory.provision(queue).await
    }

    async fn validate(
        &self,
        store: &Store,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        store.memory.validate(queue).await
    }

    async fn queues(&self, store: &Store) -> Result<Vec<QueueName>, TransportError> {
        store.memory.queues().await
    }

    async fn depth(&self, store: &Store, queue: &QueueName) -> Result<Depth, TransportError> {
        store.memory.depth(queue).await
    }

    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        store.memory.dead_letters(queue, page).await
    }

    async fn replay(
        &self,
        store: &Store,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        store.memory.replay(queue, selection).await
    }

    async fn discard(
        &self,
        store: &Store,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        store.memory.discard(queue, selection).await
    }

    /// Whether access to dead letters is offered.
    fn offers_access(&self) -> bool {
        true
    }

    async fn feed(
        &self,
        store: &Store,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        store.memory.dead_letter_feed(queue).await
    }
}

/// A transport with a defect. It claims to be durable, so that the restart cases run too.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) store: Store,
    pub(crate) defect: Arc<dyn Defect>,
}

#[async_trait]
impl Transport for Broken {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.store.memory.capabilities();
        capabilities.durable = true;
        self.defect.capabilities(capabilities)
    }

    async fn send(&self, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        self.defect.send(&self.store, to, batch).await
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        self.defect.opening(&self.store, queue).await;
        let inner = self.store.memory.subscribe(queue, self.defect.options(options)).await?;
        let (queue, store) = (queue.clone(), self.store.clone());
        let open = Opened { queue, inner: Arc::from(inner), store, buffer: Mutex::default() };
        Ok(Box::new(BrokenSubscription { open, defect: self.defect.clone() }))
    }
}

#[derive(Debug)]
struct BrokenSubscription {
    open: Opened,
    defect: Arc<dyn Defect>,
}

#[async_trait]
impl Subscription for BrokenSubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        self.defect.receive(&self.open, max, wait).await
    }

    async fn settle(&self, batch: Settlements) -> Outcomes {
        self.defect.settle(&self.open, batch).await
    }

    async fn extend(&self, deliveries: &mut [Delivery], lease: Duration) -> Outcomes {
        self.defect.extend(&self.open, deliveries, lease).await
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        Ok(())
    }
}

#[async_trait]
impl QueueAdmin for Broken {
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.defect.provision(&self.store, queue).await
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        self.defect.validate(&self.store, queue).await
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        self.defect.queues(&self.store).await
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        self.defect.depth(&self.store, queue).await
    }

    fn dead_letter_access(&self) -> Option<&dyn DeadLetterAccess> {
        self.defect.offers_access().then_some(self)
    }

    async fn dead_letter_feed(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        self.defect.feed(&self.store, queue).await
    }
}

#[async_trait]
impl DeadLetterAccess for Broken {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        self.defect.dead_letters(&self.store, queue, page).await
    }

    async fn replay(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        self.defect.replay(&self.store, queue, selection).await
    }

    async fn discard(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        self.defect.discard(&self.store, queue, selection).await
    }
}
