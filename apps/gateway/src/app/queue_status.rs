//! A snapshot of a queue, and the metrics made from it.

use std::{sync::Arc, time::Duration};

use bezoar::{Depth, ErrorKind, QueueAdmin, QueueName, Transport, TransportError};
use jiff::Timestamp;
use tokio::time::timeout;

use super::App;
use crate::{route::Route, telemetry::QueueGauges};

/// How long a broker may take to return its counts.
const BROKER_PATIENCE: Duration = Duration::from_secs(3);

/// A snapshot of a queue.
#[derive(Debug)]
pub(crate) struct QueueStatus {
    pub(super) queue: QueueName,
    pub(super) transport: &'static str,
    pub(super) depth: Depth,
    pub(super) problem: Option<TransportError>,
    now: Timestamp,
    pub(super) route: Option<Arc<Route>>,
}

impl App {
    /// A snapshot of a queue.
    pub(crate) async fn queue_status(
        &self,
        queue: &QueueName,
    ) -> Result<QueueStatus, TransportError> {
        let (depth, problem) = self.depth(queue).await?;
        let route = self.routes().into_iter().find(|route| route.queue() == queue);
        let transport = self.transport(queue).capabilities().transport;
        Ok(QueueStatus { queue: queue.clone(), transport, depth, problem, now: self.now(), route })
    }

    /// The counts of a queue, and why they are unknown if they are. Dead letters of a broker's queue may be on the
    /// broker or in the store: both are counted.
    async fn depth(
        &self,
        queue: &QueueName,
    ) -> Result<(Depth, Option<TransportError>), TransportError> {
        let Some(broker) = self.broker(queue) else {
            return Ok((self.bezoar.admin().depth(queue).await?, None));
        };
        let looking = timeout(BROKER_PATIENCE, broker.depth(queue));
        let transport = broker.capabilities().transport;
        let late = |_| Err(TransportError::new(ErrorKind::Unavailable, transport, "depth"));
        let (there, problem) = match looking.await.unwrap_or_else(late) {
            Ok(depth) => (depth, None),
            Err(error) => (Depth::default(), Some(error)),
        };
        let here = match self.bezoar.admin().depth(queue).await {
            Ok(depth) => depth,
            Err(error) if matches!(error.kind, ErrorKind::QueueNotFound(_)) => Depth::default(),
            Err(error) => return Err(error),
        };
        // None in the catalogue says nothing while it is unknown how many are on the broker.
        let dead = match (there.dead, here.dead.unwrap_or_default()) {
            (None, 0) => None,
            (there, here) => Some(there.unwrap_or_default() + here),
        };
        let mut depth = there;
        (depth.dead, depth.oldest_dead) = (dead, here.oldest_dead.or(there.oldest_dead));
        Ok((depth, problem))
    }

    /// Updates the metrics of all queues.
    pub(crate) async fn measure_queues(&self) {
        for queue in self.queues() {
            let status = match self.queue_status(&queue).await {
                Ok(status) => status.measured(),
                Err(_) => QueueGauges::default(), // unknown, which is not 0
            };
            self.metrics.set_queue(queue.as_str(), &status);
        }
        self.routes().iter().for_each(|route| route.measure());
    }
}

impl QueueStatus {
    fn measured(&self) -> QueueGauges {
        let age = |since: Option<Timestamp>| since.map(|since| self.age(since));
        QueueGauges {
            ready: self.depth.ready,
            delayed: self.depth.delayed,
            in_flight: self.depth.leased,
            dead: self.depth.dead,
            oldest_ready: age(self.depth.oldest_ready),
            oldest_dead: age(self.depth.oldest_dead),
        }
    }

    /// The time since `since`.
    pub(super) fn age(&self, since: Timestamp) -> Duration {
        let age = self.now.duration_since(since);
        if age.is_negative() { Duration::ZERO } else { age.unsigned_abs() }
    }
}
