//! A running route: a worker on a queue, an endpoint, and the gate that holds messages back between them.

use std::{
    num::NonZeroU32,
    sync::{Arc, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar::{
    Event, Gate, Host, Message, Observer, QueueAdmin, QueueName, Shutdown, Transport,
    TransportError, Worker,
    blame::{BreakerState, BreakerStatus, FailureStreak},
    catalogue::{AuditedAction, Catalogue, Verb},
};
use bezoar_core::Pauses;
use jiff::Timestamp;
use tokio::{
    sync::{Mutex, watch},
    task::JoinHandle,
    time::sleep,
};

use crate::{
    config,
    endpoint::RouteBreaker,
    telemetry::{self, RouteMetrics},
    throughput::Throughput,
};

/// The reason of a pause by an operator.
pub(crate) const PAUSED: &str = "paused by an operator";
/// The reason of a pause after the endpoint answered 410.
pub(crate) const GONE: &str = "the endpoint is gone (410)";

/// The setting that stores the pause of a route, so that it survives a restart.
pub(crate) fn paused_setting(route: &str) -> String {
    format!("paused/{route}")
}

/// The reason of a stored pause.
pub(crate) fn paused_by(setting: &str) -> &'static str {
    if setting == GONE { GONE } else { PAUSED }
}

/// Where a route's messages come from.
pub(crate) struct RouteSource {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) admin: Arc<dyn QueueAdmin>,
    /// Stores settings.
    pub(crate) catalogue: Arc<dyn Catalogue>,
}

/// A route that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Route {
    config: config::RouteConfig,
    gate: Arc<RouteGate>,
    metrics: RouteMetrics,
    throughput: Arc<Throughput>,
    problem: Arc<QueueProblem>,
    shutdown: Shutdown,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Route {
    /// Starts the worker of a route.
    pub(crate) fn start(
        source: RouteSource,
        config: config::RouteConfig,
        worker: Worker,
        gate: Arc<RouteGate>,
        metrics: RouteMetrics,
    ) -> Self {
        let (throughput, shutdown) = (Arc::new(Throughput::default()), Shutdown::default());
        let problem = Arc::new(QueueProblem::default());
        let worker = worker
            .gate(gate.clone())
            .observer(Arc::new(CompletionCounter(throughput.clone())))
            .observer(problem.clone());
        let gone = remember_gone(source.catalogue.clone(), config.name.to_string(), gate.clone());
        let work = work(source, worker, problem.clone(), shutdown.clone());
        let running = tokio::spawn(async move {
            tokio::select! { biased; () = gone => (), () = work => () }
        });
        let running = Mutex::new(Some(running));
        Self { config, gate, metrics, throughput, problem, shutdown, running }
    }

    /// Takes no more messages; [`stopped`](Self::stopped) waits for those in flight.
    pub(crate) fn drain(&self) {
        self.shutdown.drain();
    }

    /// Hands back the messages in flight.
    pub(crate) fn abort(&self) {
        self.shutdown.abort();
    }

    /// Whether every message in flight is settled or handed back.
    pub(crate) fn has_stopped(&self) -> bool {
        self.running
            .try_lock()
            .is_ok_and(|running| running.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Waits until every message in flight is settled or handed back. May be called again after it was dropped.
    pub(crate) async fn stopped(&self) {
        let mut running = self.running.lock().await;
        let Some(handle) = running.as_mut() else { return };
        if let Err(error) = handle.await {
            tracing::error!(route = self.name(), %error, "the route ended because of a bug");
        }
        *running = None;
    }

    /// How many deliveries are in progress.
    pub(crate) fn in_flight(&self) -> u64 {
        self.metrics.in_flight()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    /// Its queue.
    pub(crate) fn queue(&self) -> &QueueName {
        &self.config.from
    }

    /// Its configuration.
    pub(crate) fn config(&self) -> &config::RouteConfig {
        &self.config
    }

    /// Takes no more messages until resumed.
    pub(crate) fn pause(&self, why: &'static str) {
        self.gate.pause(why);
        tracing::warn!(route = self.name(), why, "route paused");
    }

    /// Takes messages again, and probes the endpoint at once if its breaker is open.
    pub(crate) fn resume(&self, now: Timestamp) {
        self.gate.resume(now);
        tracing::info!(route = self.name(), "route resumed");
    }

    /// Why it is paused, if it is.
    pub(crate) fn paused(&self) -> Option<&'static str> {
        *self.gate.paused.borrow()
    }

    /// The same, if the store remembers it: by an operator, or because the endpoint is gone.
    pub(crate) fn stored_pause(&self) -> Option<&'static str> {
        self.paused().filter(|why| [PAUSED, GONE].contains(why))
    }

    /// Why its queue is unavailable, if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The status of its breaker.
    pub(crate) fn breaker(&self) -> BreakerStatus {
        self.gate.breaker.status()
    }

    /// The calls that failed since its endpoint last answered about a message, if there are any.
    pub(crate) fn streak(&self) -> Option<FailureStreak> {
        self.gate.breaker.streak()
    }

    /// Updates its metrics.
    pub(crate) fn measure(&self) {
        self.metrics.set_paused(self.paused().is_some());
        self.metrics.set_breaker(match self.breaker().state {
            BreakerState::Closed => telemetry::BreakerState::Closed,
            BreakerState::HalfOpen => telemetry::BreakerState::HalfOpen,
            BreakerState::Open => telemetry::BreakerState::Open,
        });
    }

    /// Messages completed per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.throughput.per_second()
    }
}

/// The first and the longest pause before an unavailable queue is tried again.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(200), LONGEST_PAUSE);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Consumes the queue until shutdown. Waits for an unavailable queue: its broker may be down, or about to be
/// provisioned.
async fn work(source: RouteSource, worker: Worker, problem: Arc<QueueProblem>, shutdown: Shutdown) {
    let (queue, mut pauses) = (worker.queue(), PAUSES);
    while let Err(error) = source.admin.provision(queue).await {
        let (text, pause) = (describe(&error), pauses.lengthen());
        tracing::error!(%queue, error = text, wait_ms = pause.as_millis() as u64, "queue unavailable");
        problem.paused(queue, &error, pause);
        tokio::select! { () = sleep(pause) => (), () = shutdown.draining() => return }
    }
    problem.resumed(queue);
    if let Err(error) = Host::new().worker(source.transport, worker).run(shutdown).await {
        tracing::error!(%error, "route stopped unexpectedly");
    }
}

/// Stores that the endpoint is gone, so that the route stays paused after a restart.
async fn remember_gone(catalogue: Arc<dyn Catalogue>, route: String, gate: Arc<RouteGate>) {
    let mut paused = gate.paused.subscribe();
    loop {
        let _ = paused.wait_for(|why| *why != Some(GONE)).await; // it may be stored already, from before a restart
        let _ = paused.wait_for(|why| *why == Some(GONE)).await;
        let action = AuditedAction {
            actor: "gateway".to_owned(),
            address: String::new(),
            verb: Verb::Pause,
            target: format!("route {route}"),
            reason: GONE.to_owned(),
        };
        // Not after somebody has resumed the route: that was stored in the meantime and wins.
        let is_gone = || *gate.paused.borrow() == Some(GONE);
        while is_gone()
            && let Err(error) = catalogue.set(&paused_setting(&route), Some(GONE), &action).await
        {
            tracing::warn!(route, %error, "cannot store that the route is paused, retrying");
            sleep(LONGEST_PAUSE).await;
        }
    }
}

/// An error with its source. Neither contains message content.
pub(crate) fn describe(error: &TransportError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Why the queue is unavailable.
#[derive(Debug, Default)]
struct QueueProblem(std::sync::Mutex<Option<String>>);

impl QueueProblem {
    fn set(&self, problem: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

impl Observer for QueueProblem {
    fn message(&self, _: &QueueName, _: &Message, _: &Event<'_>) {}

    fn paused(&self, _: &QueueName, error: &TransportError, _: Duration) {
        self.set(Some(describe(error)));
    }

    fn resumed(&self, _: &QueueName) {
        self.set(None);
    }
}

/// Holds messages back while the route is paused or its breaker is open.
#[derive(Debug)]
pub(crate) struct RouteGate {
    paused: watch::Sender<Option<&'static str>>,
    resumed_at: std::sync::Mutex<Option<Timestamp>>,
    breaker: RouteBreaker,
}

impl RouteGate {
    pub(crate) fn new(breaker: RouteBreaker, paused: Option<&'static str>) -> Self {
        Self {
            paused: watch::Sender::new(paused),
            resumed_at: std::sync::Mutex::default(),
            breaker,
        }
    }

    pub(crate) fn pause(&self, why: &'static str) {
        self.paused.send_replace(Some(why));
    }

    fn resume(&self, now: Timestamp) {
        *self.resumed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.breaker.probe_now();
        self.paused.send_replace(None);
    }
}

#[async_trait]
impl Gate for RouteGate {
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

    fn resumed_at(&self) -> Option<Timestamp> {
        *self.resumed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct CompletionCounter(Arc<Throughput>);

impl Observer for CompletionCounter {
    fn message(&self, _: &QueueName, _: &Message, event: &Event<'_>) {
        if let Event::Completed = event {
            self.0.count();
        }
    }
}
