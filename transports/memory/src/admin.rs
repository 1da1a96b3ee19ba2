//! Queue administration.

use std::ops::Bound;

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterAccess, DeadLetterFeed, DeadLetterIds, DeadLetterPage, Depth, Finding,
    QueueAdmin, QueueName, Severity, TransportError,
};

use crate::{
    MemoryTransport,
    error::no_queue,
    feed::MemoryFeed,
    state::{Queue, State},
};

#[async_trait]
impl QueueAdmin for MemoryTransport {
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.step(|state, _| {
            state.queues.entry(queue.clone()).or_default();
        });
        Ok(())
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        if self.step(|state, _| state.queues.contains_key(queue)) {
            return Ok(Vec::new());
        }
        let problem = format!("there is no queue {queue:?}");
        Ok(vec![Finding::new(Severity::Error, problem, "provision it")])
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        Ok(self.step(|state, _| state.queues.keys().cloned().collect()))
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        self.step(|state, now| Ok(find(state, queue, "depth")?.depth(now)))
    }

    fn dead_letter_access(&self) -> Option<&dyn DeadLetterAccess> {
        Some(self)
    }

    async fn dead_letter_feed(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        self.step(|state, _| find(state, queue, "dead_letter_feed").map(drop))?;
        Ok(Some(Box::new(MemoryFeed::new(self.clone(), queue.clone()))))
    }
}

#[async_trait]
impl DeadLetterAccess for MemoryTransport {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        self.step(|state, _| {
            let dead = &find(state, queue, "dead_letters")?.dead;
            let from = page.after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.number()));
            Ok(dead
                .range((from, Bound::Unbounded))
                .map(|(_, (_, dead))| dead.clone())
                .take(page.limit.get() as usize)
                .collect())
        })
    }

    async fn replay(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError> {
        self.step(|state, now| {
            find(state, queue, "replay")?;
            Ok(state.replay(queue, ids, now))
        })
    }

    async fn discard(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError> {
        self.step(|state, now| {
            find(state, queue, "discard")?;
            Ok(state.discard(queue, ids, now))
        })
    }
}

pub(crate) fn find<'a>(
    state: &'a State,
    queue: &QueueName,
    operation: &'static str,
) -> Result<&'a Queue, TransportError> {
    state.queues.get(queue).ok_or_else(|| no_queue(queue, operation))
}
