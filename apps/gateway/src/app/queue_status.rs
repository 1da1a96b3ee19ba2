//! A snapshot of a queue, and the metrics made from it.

use std::{sync::Arc, time::Duration};

use bezoar::{Depth, ErrorKind, QueueName, TransportError};
use jiff::Timestamp;

use super::{App, broker_counts::Measured};
use crate::{route::Route, telemetry::QueueGauges};

/// A snapshot of a queue.
#[derive(Debug)]
pub(crate) struct QueueStatus {
    pub(super) queue: QueueName,
    pub(super) transport: &'static str,
    pub(super) depth: Depth,
    pub(super) problem: Option<TransportError>,
    /// How long ago it was counted; `None` if never.
    pub(super) counted: Option<Duration>,
    now: Timestamp,
    pub(super) route: Option<Arc<Route>>,
}

/// The counts of a queue, why they are unknown if they are, and their age.
#[derive(Debug, Default)]
struct Counts {
    depth: Depth,
    problem: Option<TransportError>,
    age: Option<Duration>,
}

impl App {
    /// A snapshot of a queue.
    pub(crate) async fn queue_status(
        &self,
        queue: &QueueName,
    ) -> Result<QueueStatus, TransportError> {
        let Counts { depth, problem, age } = match self.broker(queue) {
            Some(_) => self.on_broker(queue).await?,
            None => {
                let depth = self.bezoar.admin().depth(queue).await?;
                Counts { depth, problem: None, age: Some(Duration::ZERO) }
            }
        };
        let route = self.routes().into_iter().find(|route| route.queue() == queue);
        let transport = self.transport(queue).capabilities().transport;
        let (queue, now) = (queue.clone(), self.now());
        Ok(QueueStatus { queue, transport, depth, problem, counted: age, now, route })
    }

    /// The latest counts of a queue on a broker.
    async fn on_broker(&self, queue: &QueueName) -> Result<Counts, TransportError> {
        let here = match self.bezoar.admin().depth(queue).await {
            Ok(depth) => depth,
            Err(error) if matches!(error.kind, ErrorKind::QueueNotFound(_)) => Depth::default(),
            Err(error) => return Err(error),
        };
        Ok(self.broker_counts.of(queue).map_or_else(Counts::default, |there| combined(there, here)))
    }

    /// Updates the metrics of all queues, from counts that are at hand.
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

/// The counts of a queue on a broker, whose dead letters may be on the broker or in the store: both are counted. While
/// the broker does not answer, the number in the store alone would look like a small queue.
fn combined(there: Measured, here: Depth) -> Counts {
    let age = Some(there.at.elapsed());
    let mut depth = match there.depth {
        Ok(there) => there,
        Err(error) => return Counts { problem: Some(error), age, ..Counts::default() },
    };
    // None in the catalogue says nothing while it is unknown how many are on the broker.
    depth.dead = match (depth.dead, here.dead.unwrap_or_default()) {
        (None, 0) => None,
        (there, here) => Some(there.unwrap_or_default() + here),
    };
    depth.oldest_dead = here.oldest_dead.or(depth.oldest_dead);
    Counts { depth, problem: None, age }
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
            counted: self.counted,
        }
    }

    /// The time since `since`.
    pub(super) fn age(&self, since: Timestamp) -> Duration {
        let age = self.now.duration_since(since);
        if age.is_negative() { Duration::ZERO } else { age.unsigned_abs() }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn dead(count: Option<u64>) -> Depth {
        let mut depth = Depth::default();
        depth.dead = count;
        depth
    }

    #[test]
    fn dead_letters_on_the_broker_and_in_the_store_are_added() {
        for (there, here, sum) in [
            (Some(2), Some(3), Some(5)),
            (Some(2), None, Some(2)),
            (None, Some(3), Some(3)),
            (None, None, None),
            (None, Some(0), None),
        ] {
            let there = Measured { depth: Ok(dead(there)), at: Instant::now() };
            assert_eq!(combined(there, dead(here)).depth.dead, sum);
        }
    }

    #[test]
    fn nothing_is_known_while_the_broker_does_not_answer() {
        let down = TransportError::new(ErrorKind::Unavailable, "rabbitmq", "depth");
        let counts = combined(Measured { depth: Err(down), at: Instant::now() }, dead(Some(3)));
        assert_eq!(counts.depth, Depth::default());
        assert!(counts.problem.is_some() && counts.age.is_some());
    }
}
