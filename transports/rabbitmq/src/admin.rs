//! `QueueAdmin`: creating, checking and counting queues.

use async_trait::async_trait;
use bezoar_core::{
    DeadLetterFeed, Depth, ErrorKind, Finding, Invalid, QueueAdmin, QueueName, TransportError,
};

use crate::{
    BrokerFindings, RabbitTransport,
    dead_letters::dead_letter_feed::RabbitDeadLetterFeed,
    error::error,
    topology::{self, dead_letter_route::DeadLetterRoute},
};

#[async_trait]
impl QueueAdmin for RabbitTransport {
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.create(queue).await
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        let BrokerFindings { shared, mut queues } =
            self.validate_all(std::slice::from_ref(queue)).await?;
        let mut findings = queues.pop().expect("one outcome for each queue")?;
        findings.extend(shared);
        Ok(findings)
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        let Some(management) = &self.inner.management else {
            return Err(error(
                ErrorKind::Unsupported("lists of queues without management_url"),
                "queues",
            ));
        };
        let names = management.queues("queues").await?;
        Ok(topology::work_queues(names, &self.inner.options))
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        let ready = match self.inner.ready_count(queue, queue.as_str(), "depth").await {
            // Its dead-letter queue may be all that there is.
            Err(failed) if is_missing(&failed) && self.inner.has_dead_queue_of_its_own(queue) => {
                None
            }
            ready => Some(ready?),
        };
        let dead = DeadLetterRoute::of(queue, &self.inner.options).map(|route| route.queue);
        let dead = self.companion_count(queue, dead).await?;
        let quarantined = self.companion_count(queue, topology::quarantine_queue(queue)).await?;
        let elsewhere = quarantined.unwrap_or(0) + self.inner.prefetched_count(queue);
        let ready = ready.map(|ready| ready + elsewhere);
        let mut depth = Depth::default();
        (depth.ready, depth.dead) = (ready, dead);
        Ok(depth)
    }

    async fn dead_letter_feed(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        let feed = RabbitDeadLetterFeed::open(self.inner.clone(), queue.clone()).await?;
        Ok(Some(Box::new(feed)))
    }
}

impl RabbitTransport {
    /// How many messages the dead-letter or quarantine queue of `queue` has, if it exists.
    async fn companion_count(
        &self,
        queue: &QueueName,
        companion: Result<String, Invalid>,
    ) -> Result<Option<u64>, TransportError> {
        let Ok(companion) = companion else { return Ok(None) };
        match self.inner.ready_count(queue, &companion, "depth").await {
            Ok(count) => Ok(Some(count)),
            Err(failed) if is_missing(&failed) => Ok(None),
            Err(failed) => Err(failed),
        }
    }
}

fn is_missing(failed: &TransportError) -> bool {
    matches!(failed.kind, ErrorKind::QueueNotFound(_))
}
