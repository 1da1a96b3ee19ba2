//! What operators can do with queues.

use async_trait::async_trait;
use bezoar_core::{
    DeadLetterFeed, Depth, Finding, QueueAdmin, QueueName, Severity, TransportError,
};

use crate::{
    AzureTransport,
    connection::queue_client::{MOST_PER_FETCH, Queue},
    dead_letters::dead_letter_feed::AzureDeadLetterFeed,
    error::{Fault, FaultKind},
};

const PROVISION: &str = "create it with `bezoar provision`";

#[async_trait]
impl QueueAdmin for AzureTransport {
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        let main = self.inner.queue(queue, "provision")?;
        let poison = self.inner.poison_queue(queue, "provision")?;
        for queue in [&main, &poison] {
            let done = match self.inner.options.create_if_missing {
                true => queue.create().await,
                false => queue.count().await.map(drop),
            };
            done.map_err(|fault| fault.repeatable(&queue.name, "provision"))?;
        }
        if let (Some(bodies), Some(_)) =
            (&self.inner.service.bodies, &self.inner.options.claim_check)
            && self.inner.options.create_if_missing
        {
            let created = bodies.own_container().create().await;
            created.map_err(|fault| fault.repeatable(queue, "provision"))?;
        }
        Ok(())
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        let main = self.inner.queue(queue, "validate")?;
        let poison = self.inner.poison_queue(queue, "validate")?;
        let mut findings = Vec::new();
        for (it, severity) in [(&main, Severity::Error), (&poison, Severity::Warning)] {
            if !exists(it).await.map_err(|fault| fault.repeatable(queue, "validate"))? {
                let problem = format!("queue {:?} does not exist", it.name);
                findings.push(Finding::new(severity, problem, PROVISION));
            }
        }
        if let (Some(bodies), Some(claim_check)) =
            (&self.inner.service.bodies, &self.inner.options.claim_check)
        {
            let found = bodies.own_container().exists().await;
            if !found.map_err(|fault| fault.repeatable(queue, "validate"))? {
                let problem = format!("blob container {:?} does not exist", claim_check.container);
                findings.push(Finding::new(Severity::Error, problem, PROVISION));
            }
        }
        Ok(findings)
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        let names = self.inner.service.queue_names().await;
        let names = names.map_err(|fault| fault.of_account("queues"))?;
        let mut names: Vec<_> =
            names.into_iter().filter_map(|it| QueueName::new(it).ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Azure counts all messages of a queue together. Ready ones are known up to 31, by peeking at them.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        let main = self.inner.queue(queue, "depth")?;
        let poison = self.inner.poison_queue(queue, "depth")?;
        let (total, ready, dead) = tokio::join!(main.count(), main.visible(), poison.count());
        let fault = |fault: Fault| fault.repeatable(queue, "depth");
        let (total, ready) = (total.map_err(fault)?, ready.map_err(fault)?);
        let mut depth = Depth::default();
        depth.total = Some(total);
        depth.ready = (ready < MOST_PER_FETCH).then_some(ready.into());
        if total == 0 {
            (depth.delayed, depth.leased) = (Some(0), Some(0));
        }
        depth.dead = match dead {
            Err(Fault { kind: FaultKind::QueueNotFound, .. }) => None,
            dead => Some(dead.map_err(fault)?),
        };
        Ok(depth)
    }

    async fn dead_letter_feed(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        let feed = AzureDeadLetterFeed::open(self.inner.clone(), queue.clone()).await?;
        Ok(Some(Box::new(feed)))
    }
}

async fn exists(queue: &Queue) -> Result<bool, Fault> {
    match queue.count().await {
        Err(Fault { kind: FaultKind::QueueNotFound, .. }) => Ok(false),
        counted => counted.map(|_| true),
    }
}
