//! The simple defects: a value that is changed in transit.

use std::{fmt, num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Capabilities, DeadLetter, DeadLetterAccess, DeadLetterPage, Delivery, Depth, Destination,
    Outgoing, QueueAdmin, QueueName, Settlement, SubscribeOptions, Transport, TransportError,
};

use super::broken::{Acceptances, Defect, Opened, Outcomes, Settlements, Store};

type Change<T> = Box<dyn Fn(&mut T) + Send + Sync>;

/// Changes one sort of value; the others pass unchanged.
pub(crate) struct Twist {
    pub(crate) capabilities: Change<Capabilities>,
    pub(crate) options: Change<SubscribeOptions>,
    pub(crate) sent: Change<Outgoing>,
    pub(crate) sent_results: Change<Acceptances>,
    pub(crate) received: Change<Delivery>,
    pub(crate) settled: Change<Settlement>,
    pub(crate) settled_results: Change<Outcomes>,
    pub(crate) dead: Change<DeadLetter>,
    pub(crate) depth: Change<Depth>,
    pub(crate) queues: Change<Vec<QueueName>>,
}

impl Default for Twist {
    fn default() -> Self {
        Self {
            capabilities: Box::new(|_| ()),
            options: Box::new(|_| ()),
            sent: Box::new(|_| ()),
            sent_results: Box::new(|_| ()),
            received: Box::new(|_| ()),
            settled: Box::new(|_| ()),
            settled_results: Box::new(|_| ()),
            dead: Box::new(|_| ()),
            depth: Box::new(|_| ()),
            queues: Box::new(|_| ()),
        }
    }
}

impl fmt::Debug for Twist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Twist")
    }
}

fn changed<T>(mut value: T, change: &Change<T>) -> T {
    change(&mut value);
    value
}

#[async_trait]
impl Defect for Twist {
    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        changed(honest, &self.capabilities)
    }

    fn options(&self, asked: SubscribeOptions) -> SubscribeOptions {
        changed(asked, &self.options)
    }

    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let batch: Vec<_> = batch.iter().cloned().map(|out| changed(out, &self.sent)).collect();
        changed(store.memory.send(to, &batch).await, &self.sent_results)
    }

    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let mut received = open.inner.receive(max, wait).await?;
        received.iter_mut().for_each(&self.received);
        Ok(received)
    }

    async fn settle(&self, open: &Opened, mut batch: Settlements) -> Outcomes {
        batch.iter_mut().for_each(|(_, said)| (self.settled)(said));
        changed(open.inner.settle(batch).await, &self.settled_results)
    }

    async fn queues(&self, store: &Store) -> Result<Vec<QueueName>, TransportError> {
        Ok(changed(store.memory.queues().await?, &self.queues))
    }

    async fn depth(&self, store: &Store, queue: &QueueName) -> Result<Depth, TransportError> {
        Ok(changed(store.memory.depth(queue).await?, &self.depth))
    }

    async fn dead_letters(
        &self,
        store: &Store,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let mut dead = store.memory.dead_letters(queue, page).await?;
        dead.iter_mut().for_each(&self.dead);
        Ok(dead)
    }
}
