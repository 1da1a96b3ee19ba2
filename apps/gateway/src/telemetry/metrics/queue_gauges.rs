//! What is known of a queue at one moment.

use std::time::Duration;

use opentelemetry::KeyValue;

/// What is known of a queue at one moment. What is unknown is not shown; never as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueGauges {
    /// Messages that could be delivered now.
    pub ready: Option<u64>,
    /// Messages that wait for their time.
    pub delayed: Option<u64>,
    /// Messages with a worker.
    pub in_flight: Option<u64>,
    /// Messages set aside.
    pub dead: Option<u64>,
    /// For how long the oldest ready message could have been delivered.
    pub oldest_ready: Option<Duration>,
    /// For how long the oldest dead letter has been there.
    pub oldest_dead: Option<Duration>,
}

impl QueueGauges {
    /// The numbers that are known, by state.
    pub(super) fn messages(&self) -> impl Iterator<Item = (KeyValue, u64)> {
        let by_state = [
            ("ready", self.ready),
            ("delayed", self.delayed),
            ("in_flight", self.in_flight),
            ("dead", self.dead),
        ];
        let known = |(state, count): (&'static str, Option<u64>)| {
            count.map(|count| (KeyValue::new("state", state), count))
        };
        by_state.into_iter().filter_map(known)
    }
}
