//! What goes on beside the routes: measuring, replays and discards, retention.

use std::{sync::Arc, time::Duration};

use bezoar::catalogue::Catalogue;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{app::App, config::Config};

/// How often queues are measured for collectors.
const MEASURE_EVERY: Duration = Duration::from_secs(15);
/// How many dead letters are grouped anew at a time, and how long others have their turn in between.
const REGROUP: (u32, Duration) = (500, Duration::from_millis(5));

/// How long to wait after trouble with the store.
const TROUBLE: Duration = Duration::from_secs(10);

/// Starts all of it. It ends when it is dropped: nothing of it is lost by that.
pub(crate) fn start(app: &Arc<App>, config: &Config) -> JoinSet<()> {
    let mut running = JoinSet::new();
    running.spawn(measure(app.clone()));
    running.spawn(regroup(app.catalogue.clone()));
    running.spawn({
        let app = app.clone();
        async move { app.conductor.run(app.shutdown.clone()).await }
    });
    if let Some(retention) = config.dead_letters.retention() {
        let (catalogue, clock) = (app.catalogue.clone(), app.clock.clone());
        let shutdown = app.shutdown.clone();
        running.spawn(async move { retention.run(catalogue, clock, shutdown).await });
    }
    running
}

/// Collectors are told how queues stand, whether or not somebody asks for `/metrics`.
async fn measure(app: Arc<App>) {
    let mut ticks = interval(MEASURE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        app.measure_queues().await;
    }
}

/// After an upgrade dead letters may have been grouped by an older rule.
async fn regroup(catalogue: Arc<dyn Catalogue>) {
    let mut all = 0;
    loop {
        match catalogue.regroup(REGROUP.0).await {
            Ok(0) => break,
            Ok(some) => all += some,
            Err(error) => {
                tracing::warn!(%error, "dead letters are not all grouped by cause yet");
                sleep(TROUBLE).await;
            }
        }
        sleep(REGROUP.1).await;
    }
    if all > 0 {
        tracing::info!(dead_letters = all, "grouped anew by cause");
    }
}
