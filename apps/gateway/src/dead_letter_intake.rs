//! Takes dead letters of brokers' queues into the catalogue.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar::{
    QueueName, Shutdown,
    ops::{Intake, Outcomes},
};
use tokio::task::JoinHandle;

use crate::{
    app::App,
    broker::Broker,
    config::{Config, Watch},
};

/// How long transfers between a broker and the store may take to finish when the gateway stops.
const GRACE: Duration = Duration::from_secs(5);

/// The intake tasks, by queue.
#[derive(Debug, Default)]
pub(crate) struct Intakes(Mutex<BTreeMap<QueueName, RunningIntake>>);

/// A task, and what it was started for.
type RunningIntake = ((Outcomes, Moves), IntakeTask);

/// What is moved between a broker and the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moves {
    /// Dead letters into the catalogue, and replayed messages to the broker.
    Both,
    /// Replayed messages only: a `[[poison_retry]]` works on the dead letters.
    Replays,
}

impl Moves {
    fn of(config: &Config, queue: &QueueName) -> Self {
        match config.poison_retry_of(queue) {
            Some(_) => Self::Replays,
            None => Self::Both,
        }
    }
}

/// A background task that finishes the current transfer when it is stopped or dropped.
#[derive(Debug)]
struct IntakeTask {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl IntakeTask {
    async fn stopped(mut self) {
        self.shutdown.drain();
        let _ = (&mut self.task).await;
    }
}

impl Drop for IntakeTask {
    fn drop(&mut self) {
        self.shutdown.drain();
    }
}

impl Intakes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<QueueName, RunningIntake>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether dead letters of this queue are taken in.
    pub(crate) fn takes(&self, queue: &QueueName) -> bool {
        self.lock().contains_key(queue)
    }

    /// Starts and stops tasks, so that exactly the queues that are configured for it are taken in.
    pub(crate) fn follow(&self, app: &Arc<App>, config: &Config) {
        let mut wanted = BTreeMap::new();
        for (queue, outcomes) in taken_in(config) {
            let Some(broker) = app.broker(&queue) else { continue };
            let moves = Moves::of(config, &queue);
            wanted.insert(queue, ((outcomes, moves), broker.clone()));
        }
        for (queue, broker) in collectors(app, config) {
            wanted.insert(queue, ((Outcomes::Unheard, Moves::Both), broker));
        }
        let mut running = self.lock();
        running
            .retain(|queue, (kind, _)| wanted.get(queue).is_some_and(|(wanted, _)| wanted == kind));
        for (queue, (kind, broker)) in wanted {
            running
                .entry(queue)
                .or_insert_with_key(|queue| (kind, start(app, queue, broker, kind)));
        }
    }

    /// Stops all tasks after their current transfer.
    pub(crate) async fn stop(&self) {
        let all = std::mem::take(&mut *self.lock());
        for (_, running) in all.into_values() {
            let _ = tokio::time::timeout(GRACE, running.stopped()).await;
        }
    }
}

/// The queues of brokers whose dead letters are taken in, and who reports what becomes of replayed ones.
fn taken_in(config: &Config) -> BTreeMap<QueueName, Outcomes> {
    let queues = config.all_queues().into_iter();
    let taken =
        queues.filter(|queue| config.broker(queue).is_some() && config.watch(queue) == Watch::Take);
    let outcomes = |queue: &QueueName| match config.routes.iter().any(|it| it.from == *queue) {
        true => Outcomes::Reported,
        false => Outcomes::Unheard,
    };
    taken.map(|queue| (queue.clone(), outcomes(&queue))).collect()
}

/// The queues in which each broker with a route collects dead letters of its own.
fn collectors(app: &App, config: &Config) -> BTreeMap<QueueName, Broker> {
    let routed: BTreeSet<_> = config
        .routes
        .iter()
        .filter_map(|route| config.broker(&route.from))
        .map(|(transport, _)| &transport.name)
        .collect();
    let brokers = routed.into_iter().filter_map(|name| app.brokers.get(name.as_str()));
    let queues = brokers.flat_map(|broker| {
        broker.dead_letter_collectors().into_iter().map(|queue| (queue, broker.clone()))
    });
    queues.collect()
}

/// One of several gateways takes in the dead letters of a queue: what a broker delivers again is recognized only in
/// the order in which it is taken.
fn start(
    app: &Arc<App>,
    queue: &QueueName,
    broker: Broker,
    (outcomes, moves): (Outcomes, Moves),
) -> IntakeTask {
    let intake = Intake {
        broker: Arc::new(broker),
        queue: queue.clone(),
        catalogue: app.catalogue_of_leader.clone(),
        store: app.bezoar.transport().clone(),
        outcomes,
    };
    let shutdown = app.shutdown.child();
    let (app, until) = (app.clone(), shutdown.clone());
    let task = tokio::spawn(async move {
        let take = |term| {
            let intake = intake.clone();
            async move {
                match moves {
                    Moves::Both => intake.run(term).await,
                    Moves::Replays => intake.run_replays(term).await,
                }
            }
        };
        app.leadership.while_leading(&until, take).await;
    });
    IntakeTask { shutdown, task }
}
