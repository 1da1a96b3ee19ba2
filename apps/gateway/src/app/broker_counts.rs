//! The counts of queues on brokers: measured in the background, all at the same time, and read from memory.
//!
//! So a broker that hangs delays nobody who asks for the counts of all queues; they learn how old each count is. Whoever
//! asks gets counts of the last second if the brokers answer quickly.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bezoar::{Depth, ErrorKind, QueueAdmin, QueueName, Transport, TransportError};
use futures_util::{StreamExt, stream};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use super::App;
use crate::broker::Broker;

/// How often counts are measured if nobody asks.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// How old counts may be for somebody who asks.
const FRESH: Duration = Duration::from_secs(1);
/// How long somebody who asks waits for newer ones.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a broker may take to return its counts.
const BROKER_PATIENCE: Duration = Duration::from_secs(3);
/// How many queues are measured at a time.
const CONCURRENCY: usize = 64;

/// The latest counts of every queue on a broker.
#[derive(Debug)]
pub(crate) struct BrokerCounts {
    latest: Mutex<BTreeMap<QueueName, Measured>>,
    wanted: Notify,
    /// When the last round of measurements ended.
    rounds: watch::Sender<Option<Instant>>,
}

/// The counts of a queue at some time, or why they are unknown.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) depth: Result<Depth, TransportError>,
    pub(super) at: Instant,
}

impl Default for BrokerCounts {
    fn default() -> Self {
        let (latest, wanted) = (Mutex::default(), Notify::new());
        Self { latest, wanted, rounds: watch::Sender::new(None) }
    }
}

impl BrokerCounts {
    /// Measures for ever.
    pub(crate) async fn run(app: Arc<App>) {
        let counts = &app.broker_counts;
        loop {
            let queues = app.queues();
            let on_brokers =
                queues.iter().filter_map(|queue| Some((queue.clone(), app.broker(queue)?.clone())));
            let measuring = stream::iter(on_brokers.collect::<Vec<_>>())
                .map(|(queue, broker)| counts.measure(queue, broker))
                .buffer_unordered(CONCURRENCY);
            measuring.collect::<()>().await;
            counts.forget_others(&queues);
            counts.rounds.send_replace(Some(Instant::now()));
            tokio::select! {
                () = sleep(MEASURE_EVERY) => (),
                () = counts.wanted.notified() => (),
            }
        }
    }

    /// Waits a moment for counts of the last second.
    pub(crate) async fn refresh(&self) {
        let mut rounds = self.rounds.subscribe();
        if !rounds.borrow_and_update().is_some_and(|at| at.elapsed() < FRESH) {
            self.wanted.notify_one();
            let _ = timeout(PATIENCE, rounds.changed()).await;
        }
    }

    /// The latest counts of a queue and their age; `None` if it was not measured yet.
    pub(super) fn of(&self, queue: &QueueName) -> Option<Measured> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.get(queue).map(|Measured { depth, at }| Measured {
            depth: depth.as_ref().map(|depth| *depth).map_err(TransportError::again),
            at: *at,
        })
    }

    async fn measure(&self, queue: QueueName, broker: Broker) {
        let measured = timeout(BROKER_PATIENCE, broker.depth(&queue)).await;
        let depth = measured.unwrap_or_else(|_| {
            let transport = broker.capabilities().transport;
            Err(TransportError::new(ErrorKind::Unavailable, transport, "depth"))
        });
        let measured = Measured { depth, at: Instant::now() };
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).insert(queue, measured);
    }

    /// Forgets queues that a reload removed.
    fn forget_others(&self, queues: &[QueueName]) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.retain(|queue, _| queues.contains(queue));
    }
}
