//! Message counts by state, from the gateway's API.

use std::fmt;

use anyhow::Result;

use crate::{
    client::ApiClient,
    queue_status::{self, QueueStatus},
};

/// Message counts of all queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MessageCounts {
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    /// Failed attempts that used up a retry.
    pub(super) retried: u64,
    /// Failed attempts that did not.
    pub(super) uncounted: u64,
    /// Neither delivered nor dead.
    pub(super) waiting: u64,
    /// Of those waiting, the ones that are ready or in flight.
    pub(super) moving: u64,
    pub(super) dead: u64,
}

impl MessageCounts {
    /// Fetches the counts.
    pub(super) async fn read(client: &ApiClient) -> Result<Self> {
        let queues: Vec<QueueStatus> = queue_status::fetch(client).await?.parse()?;
        let metrics = client.get("/metrics").await?;
        let sum = |of: fn(&QueueStatus) -> Option<u64>| queues.iter().filter_map(of).sum::<u64>();
        let moving = sum(|it| it.ready) + sum(|it| it.in_flight);
        Ok(Self {
            accepted: total(&metrics.text(), "bezoar_accepted_total"),
            delivered: total(&metrics.text(), "bezoar_delivered_total"),
            retried: total(&metrics.text(), "bezoar_retried_total"),
            uncounted: total(&metrics.text(), "bezoar_uncounted_total"),
            waiting: moving + sum(|it| it.delayed),
            moving,
            dead: sum(|it| it.dead),
        })
    }

    pub(super) fn adds_up(&self) -> bool {
        self.accepted == self.delivered + self.waiting + self.dead
    }
}

impl fmt::Display for MessageCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, delivered, waiting, dead, .. } = self;
        write!(f, "accepted {accepted} = delivered {delivered} + waiting {waiting} + dead {dead}")
    }
}

/// The sum of a counter over all its labels, from Prometheus' text format.
fn total(metrics: &str, name: &str) -> u64 {
    let value = |line: &str| -> Option<u64> {
        let (_labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once(' ')?;
        value.parse().ok()
    };
    metrics.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        let metrics = "# TYPE a_total counter\na_total{queue=\"x y\"} 3\na_total{queue=\"z\"} 4\na_total_more{q=\"\"} 9\n";
        assert_eq!(total(metrics, "a_total"), 7);
        assert_eq!(total(metrics, "b_total"), 0);
    }

    #[test]
    fn the_sum_is_right_if_every_message_is_counted_once() {
        let counts = MessageCounts {
            accepted: 9,
            delivered: 5,
            waiting: 3,
            dead: 1,
            ..MessageCounts::default()
        };
        assert!(counts.adds_up());
        assert!(!MessageCounts { dead: 2, ..counts }.adds_up());
        assert_eq!(counts.to_string(), "accepted 9 = delivered 5 + waiting 3 + dead 1");
    }
}
