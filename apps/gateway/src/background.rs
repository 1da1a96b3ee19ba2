//! Background tasks beside the routes: metrics, replays and discards, retention, the anchor of the audit log.

use std::{sync::Arc, time::Duration};

use bezoar::{Shutdown, catalogue::Catalogue};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    app::{App, BrokerCounts},
    broker::Broker,
    config::{Config, Name},
    other_gateways,
    route::describe,
};

/// How often queue metrics are updated.
const MEASURE_EVERY: Duration = Duration::from_secs(15);
/// How often the head of the audit log is compared and noted.
const ANCHOR_EVERY: Duration = Duration::from_secs(1);
/// How often bodies without a message are looked for.
const REMOVE_ORPHANS_EVERY: Duration = Duration::from_secs(60 * 60);
/// How many dead letters are regrouped at a time, and the pause in between, in which other writes proceed.
const REGROUP: (u32, Duration) = (500, Duration::from_millis(5));

/// How long to wait after an error of the store.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Starts all tasks. They are aborted on drop, which loses nothing.
pub(crate) fn start(app: &Arc<App>, config: &Config) -> JoinSet<()> {
    let mut running = JoinSet::new();
    running.spawn(BrokerCounts::run(app.clone()));
    running.spawn(measure(app.clone()));
    running.spawn(lead(app, |app, _| regroup(app.catalogue_of_leader.clone())));
    running.spawn(anchor_audit_log(app.clone()));
    running.spawn(lead(app, |app, term| async move { app.conductor.run(term).await }));
    if let Some(retention) = config.dead_letters.retention() {
        running.spawn(lead(app, move |app, term| async move {
            retention.run(app.catalogue_of_leader.clone(), app.clock.clone(), term).await;
        }));
    }
    if app.leadership.is_shared() {
        running.spawn(other_gateways::follow(app.clone()));
    }
    for transport in &config.transports {
        let age = transport.settings.of_kind().orphans_after();
        let broker = app.brokers.get(transport.name.as_str());
        if let (Some(age), Some(broker)) = (age, broker) {
            running.spawn(remove_orphans(transport.name.clone(), broker.clone(), age));
        }
    }
    running
}

/// Does what only one of several gateways may do, whenever this one leads.
fn lead<F: Future<Output = ()> + Send>(
    app: &Arc<App>,
    work: impl Fn(Arc<App>, Shutdown) -> F + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let app = app.clone();
    async move {
        app.leadership.while_leading(&app.shutdown, |term| work(app.clone(), term)).await;
    }
}

/// Removes bodies that no message needs, once at the start and then every hour.
async fn remove_orphans(transport: Name, broker: Broker, age: Duration) {
    let mut ticks = interval(REMOVE_ORPHANS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match broker.remove_orphans(age).await {
            Ok(0) => (),
            Ok(bodies) => tracing::info!(%transport, bodies, "removed bodies without a message"),
            Err(error) => {
                let error = describe(&error);
                tracing::warn!(%transport, error, "cannot remove bodies without a message, retrying");
            }
        }
    }
}

/// Keeps queue metrics current for OTLP collectors, even if nobody scrapes `/metrics`.
async fn measure(app: Arc<App>) {
    let mut ticks = interval(MEASURE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        app.measure_queues().await;
    }
}

/// Notes the head of the audit log outside of the store.
async fn anchor_audit_log(app: Arc<App>) {
    let mut ticks = interval(ANCHOR_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // An unreadable store is reported by those who need it.
        let _ = app.audit_anchor.follow(&*app.catalogue).await;
    }
}

/// Regroups dead letters that an older version grouped by an older rule.
async fn regroup(catalogue: Arc<dyn Catalogue>) {
    let mut all = 0;
    loop {
        match catalogue.regroup(REGROUP.0).await {
            Ok(0) => break,
            Ok(some) => all += some,
            Err(error) => {
                tracing::warn!(%error, "cannot regroup dead letters by cause yet, retrying");
                sleep(RETRY_PAUSE).await;
            }
        }
        sleep(REGROUP.1).await;
    }
    if all > 0 {
        tracing::info!(dead_letters = all, "regrouped dead letters by cause");
    }
}
