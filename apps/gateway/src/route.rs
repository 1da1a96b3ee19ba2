//! A running route: a worker on a queue, an endpoint, and what holds messages back between them.

use std::{num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use bezoar::{Bezoar, Event, Gate, Message, Observer, QueueName, Shutdown, TransportError, Worker};
use tokio::{
    sync::{Mutex, watch},
    task::JoinHandle,
};

use crate::{
    config,
    endpoint::{Breaker, BreakerState},
    rate::Throughput,
    telemetry::{self, RouteMetrics},
};

/// Why a route is paused that somebody paused.
pub(crate) const PAUSED: &str = "paused by an operator";

/// Where it is kept that somebody paused a route, so that it stays so after a restart.
pub(crate) fn paused_setting(route: &str) -> String {
    format!("paused/{route}")
}

/// A route that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Route {
    config: config::Route,
    valve: Arc<Valve>,
    metrics: RouteMetrics,
    throughput: Arc<Throughput>,
    shutdown: Shutdown,
    running: Mutex<Option<JoinHandle<Result<(), TransportError>>>>,
}

impl Route {
    /// Starts the worker of a route.
    pub(crate) fn start(
        bezoar: Bezoar,
        config: config::Route,
        worker: Worker,
        valve: Arc<Valve>,
        metrics: RouteMetrics,
    ) -> Self {
        let (throughput, shutdown) = (Arc::new(Throughput::default()), Shutdown::default());
        let worker = worker.gate(valve.clone()).observer(Arc::new(Count(throughput.clone())));
        let stop = shutdown.clone();
        let running = tokio::spawn(async move { bezoar.run_until(worker, stop).await });
        Self { config, valve, metrics, throughput, shutdown, running: Mutex::new(Some(running)) }
    }

    /// Takes no more messages; [`stopped`](Self::stopped) waits for those in hand.
    pub(crate) fn drain(&self) {
        self.shutdown.drain();
    }

    /// Hands back what is in hand.
    pub(crate) fn abort(&self) {
        self.shutdown.abort();
    }

    /// Whether every message that was in hand is settled or handed back.
    pub(crate) fn has_stopped(&self) -> bool {
        self.running
            .try_lock()
            .is_ok_and(|running| running.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Waits until every message in hand is settled or handed back. Who gives up waiting may wait again.
    pub(crate) async fn stopped(&self) {
        let mut running = self.running.lock().await;
        let Some(handle) = running.as_mut() else { return };
        match handle.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(route = self.name(), %error, "the route ended"),
            Err(error) => {
                tracing::error!(route = self.name(), %error, "the route ended by a defect")
            }
        }
        *running = None;
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    /// Its queue.
    pub(crate) fn queue(&self) -> &QueueName {
        &self.config.from
    }

    /// What it was configured with.
    pub(crate) fn config(&self) -> &config::Route {
        &self.config
    }

    /// Takes no more messages until resumed.
    pub(crate) fn pause(&self, why: &'static str) {
        self.valve.pause(why);
        tracing::warn!(route = self.name(), why, "route paused");
    }

    /// Takes messages again.
    pub(crate) fn resume(&self) {
        self.valve.resume();
        tracing::info!(route = self.name(), "route resumed");
    }

    /// Why it is paused, if it is.
    pub(crate) fn paused(&self) -> Option<&'static str> {
        *self.valve.paused.borrow()
    }

    /// How its breaker stands.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.valve.breaker.state()
    }

    /// Shows how it stands to those who measure.
    pub(crate) fn measure(&self) {
        self.metrics.set_paused(self.paused().is_some());
        self.metrics.set_breaker(match self.breaker() {
            BreakerState::Closed => telemetry::BreakerState::Closed,
            BreakerState::HalfOpen => telemetry::BreakerState::HalfOpen,
            BreakerState::Open { .. } => telemetry::BreakerState::Open,
        });
    }

    /// How many messages a second it completes.
    pub(crate) fn per_second(&self) -> f64 {
        self.throughput.per_second()
    }
}

/// Holds messages back while the route is paused or its endpoint is down.
#[derive(Debug)]
pub(crate) struct Valve {
    paused: watch::Sender<Option<&'static str>>,
    breaker: Breaker,
}

impl Valve {
    pub(crate) fn new(breaker: Breaker, paused: Option<&'static str>) -> Self {
        Self { paused: watch::Sender::new(paused), breaker }
    }

    pub(crate) fn pause(&self, why: &'static str) {
        self.paused.send_replace(Some(why));
    }

    fn resume(&self) {
        self.paused.send_replace(None);
    }
}

#[async_trait]
impl Gate for Valve {
    async fn admit(&self, free: NonZeroU32) -> NonZeroU32 {
        let mut paused = self.paused.subscribe();
        loop {
            let _ = paused.wait_for(Option::is_none).await;
            let admitted = self.breaker.admit(free).await;
            if paused.borrow().is_none() {
                return admitted;
            }
        }
    }

    fn is_open(&self) -> bool {
        self.paused.borrow().is_none() && self.breaker.admits()
    }
}

#[derive(Debug)]
struct Count(Arc<Throughput>);

impl Observer for Count {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        if let Event::Completed = event {
            self.0.count();
        }
    }
}
