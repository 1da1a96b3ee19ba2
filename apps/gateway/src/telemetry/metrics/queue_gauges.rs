//! The gauges of a queue.

use std::time::Duration;

use opentelemetry::KeyValue;

/// The gauges of a queue. Unknown values are omitted, never shown as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueGauges {
    /// Messages that can be delivered now.
    pub ready: Option<u64>,
    /// Messages that wait for their delay.
    pub delayed: Option<u64>,
    /// Messages that are being delivered.
    pub in_flight: Option<u64>,
    /// Dead letters.
    pub dead: Option<u64>,
    /// How long the oldest ready message has been waiting.
    pub oldest_ready: Option<Duration>,
    /// The age of the oldest dead letter.
    pub oldest_dead: Option<Duration>,
    /// How long ago the messages were counted.
    pub counted: Option<Duration>,
}

impl QueueGauges {
    /// The known counts, by state.
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
