//! Counts the events of a worker.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use bezoar::{Event, Message, Observer, QueueName, TransportError};

use super::RouteMetrics;

/// Counts the outcomes of a route's messages, once they are stored.
#[derive(Debug, Clone)]
pub struct RouteObserver(pub(super) RouteMetrics);

impl Observer for RouteObserver {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        let series = &self.0.series;
        let counter = match event {
            Event::Completed => &series.delivered,
            Event::Retried { .. } => &series.retried,
            Event::NotCounted { failure, .. } => {
                if failure.suspected {
                    series.suspected.fetch_add(1, Relaxed);
                }
                &series.uncounted
            }
            Event::Released => &series.released,
            Event::LeaseLost => &series.lease_lost,
            Event::NotSettled(_) => &series.not_settled,
            Event::DeadLettered { reason, .. } => {
                let code = reason.code().as_str();
                return series.dead_lettered.add(code, 1, &self.0.shared.series.deaths);
            }
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    fn paused(&self, _: &QueueName, _: &TransportError, _: Duration) {
        self.0.series.interrupted.fetch_add(1, Relaxed);
    }
}
