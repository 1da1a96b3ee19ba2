//! The state that the API and the background tasks share: store, brokers, routes and tokens.
//!
//! What a reload may change is in [`LiveSettings`], behind one lock that is never held across an `.await`; everything
//! else is fixed for the life of the process. Queues named `NAME/QUEUE` live on a broker, all others in the store:
//! `broker`, `transport` and `depth` make that distinction, and nothing else in the API does.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use bezoar::{
    Bezoar, Clock, Code, Depth, Destination, ErrorKind, MessageId, Outgoing, QueueAdmin, QueueName,
    Shutdown, Transport, TransportError,
    catalogue::{AuditedAction, Catalogue, Filter},
    ops::Conductor,
};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::Instrument;

use crate::{
    access::Access,
    api::Problem,
    broker::Broker,
    dead_letter_intake::Intakes,
    poison_retry::PoisonRetries,
    route::{Route, describe},
    telemetry::{Correlation, Metrics, QueueGauges, TRACEPARENT, accept_span, ended, traceparent},
};

/// How long a broker may take to return its counts.
const BROKER_PATIENCE: Duration = Duration::from_secs(3);

/// The shared state.
#[derive(Debug)]
pub(crate) struct App {
    /// The store.
    pub(crate) bezoar: Bezoar,
    /// Brokers by name.
    pub(crate) brokers: BTreeMap<String, Broker>,
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) conductor: Conductor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) listen: SocketAddr,
    pub(crate) max_body_bytes: usize,
    pub(crate) room: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) correlation: Correlation,
    pub(crate) error_texts: ErrorTexts,
    pub(crate) shutdown: Shutdown,
    /// The tasks that take in dead letters from brokers.
    pub(crate) intakes: Intakes,
    /// The processors of poison queues.
    pub(crate) poison_retries: PoisonRetries,
    pub(crate) live: RwLock<LiveSettings>,
    /// When the store last refused a message because it is full.
    pub(crate) full: Mutex<Option<Instant>>,
}

/// Whether the log shows the texts of errors. It cannot be set in the configuration or the environment: only
/// the command that starts the gateway can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorTexts {
    /// It does not: they may contain personal data.
    #[default]
    Hidden,
    /// It does, for development only.
    ShownForDevelopment,
}

/// The settings that a reload may change.
#[derive(Debug, Default)]
pub(crate) struct LiveSettings {
    pub(crate) access: Arc<Access>,
    pub(crate) queues: BTreeSet<QueueName>,
    pub(crate) routes: BTreeMap<String, Arc<Route>>,
    pub(crate) editable: EditRules,
}

/// Which queues' dead letters may be edited.
#[derive(Debug, Default)]
pub(crate) struct EditRules {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) approval: bool,
}

/// A snapshot of a queue.
#[derive(Debug)]
pub(crate) struct QueueStatus {
    queue: QueueName,
    transport: &'static str,
    depth: Depth,
    problem: Option<TransportError>,
    now: Timestamp,
    route: Option<Arc<Route>>,
}

impl App {
    pub(crate) fn bezoar(&self) -> &Bezoar {
        &self.bezoar
    }

    /// The broker of a queue; `None` if it is in the store.
    pub(crate) fn broker(&self, queue: &QueueName) -> Option<&Broker> {
        queue.as_str().split_once('/').and_then(|(name, _)| self.brokers.get(name))
    }

    /// The transport of a queue.
    fn transport(&self, queue: &QueueName) -> Arc<dyn Transport> {
        match self.broker(queue) {
            Some(broker) => Arc::new(broker.clone()),
            None => self.bezoar.transport().clone(),
        }
    }

    pub(crate) fn catalogue(&self) -> &Arc<dyn Catalogue> {
        &self.catalogue
    }

    /// Fails for a filter on a queue that is neither configured nor in the store: a misspelt name would silently match
    /// nothing. Queues that are no longer configured keep their dead letters and stay valid here.
    /// The error lists the queues that the caller `sees`.
    pub(crate) async fn covers(
        &self,
        filter: &Filter,
        sees: impl Fn(&QueueName) -> bool,
    ) -> Result<(), Problem> {
        let Some([queue]) = filter.queues.as_deref() else { return Ok(()) };
        match self.known(queue, sees) {
            Err(_) if self.bezoar.admin().queues().await?.contains(queue) => Ok(()),
            known => known,
        }
    }

    /// Whether edits of a queue's dead letters need a second person's approval; fails if they are not allowed.
    pub(crate) fn edits(&self, queue: &QueueName) -> Result<bool, Problem> {
        self.live(|live| {
            if live.editable.queues.contains(queue) {
                return Ok(live.editable.approval);
            }
            let detail = format!(
                "dead letters of queue {queue:?} cannot be edited; add it to dead_letters.editable to allow edits"
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
        })
    }

    /// The id of this store in exports, generated once.
    pub(crate) async fn origin(&self, action: &AuditedAction) -> Result<String, Problem> {
        const SETTING: &str = "origin";
        if let Some(origin) = self.catalogue.setting(SETTING).await? {
            return Ok(origin);
        }
        let origin = MessageId::generate(self.now(), &mut rand::rng()).to_string();
        let made =
            AuditedAction { target: "created this store's export id".to_owned(), ..action.clone() };
        self.catalogue.set(SETTING, Some(&origin), &made).await?;
        Ok(origin)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    pub(crate) fn room(&self) -> &Semaphore {
        &self.room
    }

    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.shutdown.is_draining()
    }

    pub(crate) fn is_on_loopback(&self) -> bool {
        self.listen.ip().is_loopback()
    }

    pub(crate) fn access(&self) -> Arc<Access> {
        self.live(|live| live.access.clone())
    }

    /// The configured queues, by name.
    pub(crate) fn queues(&self) -> Vec<QueueName> {
        self.live(|live| live.queues.iter().cloned().collect())
    }

    /// Fails if a queue is not configured; the error lists those that the caller `sees`.
    pub(crate) fn known(
        &self,
        queue: &QueueName,
        sees: impl Fn(&QueueName) -> bool,
    ) -> Result<(), Problem> {
        self.live(|live| {
            if live.queues.contains(queue) {
                return Ok(());
            }
            let seen = live.queues.iter().filter(|queue| sees(queue));
            let known: Vec<_> = seen.map(QueueName::as_str).collect();
            let detail = format!("unknown queue {queue:?}; known queues: {}", known.join(", "));
            Err(Problem::not_found(detail).with("queues", known))
        })
    }

    /// Finds a route by name, among those that the caller `sees`.
    pub(crate) fn route(
        &self,
        name: &str,
        sees: impl Fn(&Route) -> bool,
    ) -> Result<Arc<Route>, Problem> {
        let seen: Vec<_> = self.routes().into_iter().filter(|route| sees(route)).collect();
        seen.iter().find(|route| route.name() == name).cloned().ok_or_else(|| {
            let known: Vec<_> = seen.iter().map(|route| route.name()).collect();
            let known = known.join(", ");
            Problem::not_found(format!("unknown route; known routes: {known}"))
        })
    }

    pub(crate) fn routes(&self) -> Vec<Arc<Route>> {
        self.live(|live| live.routes.values().cloned().collect())
    }

    /// Stores messages; one result each. `traced` is the caller's trace, which continues with them.
    pub(crate) async fn store(
        &self,
        queue: &QueueName,
        mut batch: Vec<Outgoing>,
        traced: Option<&str>,
    ) -> Vec<Result<(), TransportError>> {
        let incoming = self.correlation.incoming(traced);
        let span = accept_span(queue.as_str(), &batch, incoming);
        if let Some(trace) = traceparent(&span, incoming) {
            for outgoing in &mut batch {
                outgoing.message.headers.insert(TRACEPARENT.to_owned(), trace.clone().into());
            }
        }
        let started = Instant::now();
        let queue_of = Destination::from(queue);
        let transport = self.transport(queue);
        if !transport.capabilities().deduplication {
            batch.iter_mut().for_each(|outgoing| outgoing.once = None);
        }
        let sending = transport.send(&queue_of, &batch);
        let results = sending.instrument(span.clone()).await;
        self.measure(queue, &results, started.elapsed());
        self.note_full(&results);
        let refused = results.iter().any(Result::is_err);
        ended(&span, if refused { Err("refused") } else { Ok(()) });
        results
    }

    /// Whether the store was full recently. This expires soon: deliveries free space, which only another send finds out.
    pub(crate) fn was_full(&self) -> bool {
        const JUST_NOW: Duration = Duration::from_secs(10);
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.is_some_and(|at| at.elapsed() < JUST_NOW)
    }

    fn note_full(&self, results: &[Result<(), TransportError>]) {
        let refused = |result: &Result<(), TransportError>| {
            result.as_ref().is_err_and(|error| error.kind == ErrorKind::Full)
        };
        if results.iter().any(refused) {
            let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
            if full.replace(Instant::now()).is_none_or(|at| at.elapsed() > Duration::from_secs(60))
            {
                tracing::error!(
                    "the store is full and refuses messages; free disk space, or raise store.max_size"
                );
            }
        }
    }

    fn measure(&self, queue: &QueueName, results: &[Result<(), TransportError>], took: Duration) {
        let metrics = self.metrics.queue(queue.as_str());
        let accepted = results.iter().filter(|result| result.is_ok()).count();
        if accepted > 0 {
            metrics.accepted(accepted as u64, took);
        }
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            metrics.refused(1, Problem::from(error.again()).code());
        }
    }

    /// A snapshot of a queue.
    pub(crate) async fn queue_status(
        &self,
        queue: &QueueName,
    ) -> Result<QueueStatus, TransportError> {
        let (depth, problem) = self.depth(queue).await?;
        let route = self.routes().into_iter().find(|route| route.queue() == queue);
        let transport = self.transport(queue).capabilities().transport;
        Ok(QueueStatus { queue: queue.clone(), transport, depth, problem, now: self.now(), route })
    }

    /// The counts of a queue, and why they are unknown if they are. Dead letters of a broker's queue may be on the
    /// broker or in the store: both are counted.
    async fn depth(
        &self,
        queue: &QueueName,
    ) -> Result<(Depth, Option<TransportError>), TransportError> {
        let Some(broker) = self.broker(queue) else {
            return Ok((self.bezoar.admin().depth(queue).await?, None));
        };
        let looking = timeout(BROKER_PATIENCE, broker.depth(queue));
        let transport = broker.capabilities().transport;
        let late = |_| Err(TransportError::new(ErrorKind::Unavailable, transport, "depth"));
        let (there, problem) = match looking.await.unwrap_or_else(late) {
            Ok(depth) => (depth, None),
            Err(error) => (Depth::default(), Some(error)),
        };
        let here = match self.bezoar.admin().depth(queue).await {
            Ok(depth) => depth,
            Err(error) if matches!(error.kind, ErrorKind::QueueNotFound(_)) => Depth::default(),
            Err(error) => return Err(error),
        };
        // None in the catalogue says nothing while it is unknown how many are on the broker.
        let dead = match (there.dead, here.dead.unwrap_or_default()) {
            (None, 0) => None,
            (there, here) => Some(there.unwrap_or_default() + here),
        };
        let mut depth = there;
        (depth.dead, depth.oldest_dead) = (dead, here.oldest_dead.or(there.oldest_dead));
        Ok((depth, problem))
    }

    /// Updates the metrics of all queues.
    pub(crate) async fn measure_queues(&self) {
        for queue in self.queues() {
            let status = match self.queue_status(&queue).await {
                Ok(status) => status.measured(),
                Err(_) => QueueGauges::default(), // unknown, which is not 0
            };
            self.metrics.set_queue(queue.as_str(), &status);
        }
        self.routes().iter().for_each(|route| route.measure());
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn live<T>(&self, look: impl FnOnce(&LiveSettings) -> T) -> T {
        look(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl QueueStatus {
    /// Its JSON in the API; unknown values are null.
    pub(crate) fn to_json(&self) -> Value {
        let age = |since: Option<Timestamp>| since.map(|since| self.age(since).as_secs_f64());
        let route = self.route.as_ref().map(|route| {
            let breaker = route.breaker();
            let while_open = |time: Duration| breaker.code.is_some().then_some(time.as_secs_f64());
            json!({
                "name": route.name(),
                "to": route.config().to.origin(),
                "paused": route.paused(),
                "breaker": breaker.state.as_str(),
                "breaker_code": breaker.code.as_ref().map(Code::as_str),
                "breaker_open_seconds": while_open(breaker.open_for),
                "breaker_next_probe_seconds": while_open(breaker.next_probe),
                "per_second": route.per_second(),
                "problem": route.problem(),
            })
        });
        json!({
            "queue": self.queue.as_str(),
            "transport": self.transport,
            "total": self.depth.total,
            "ready": self.depth.ready,
            "delayed": self.depth.delayed,
            "in_flight": self.depth.leased,
            "dead": self.depth.dead,
            "oldest_ready_seconds": age(self.depth.oldest_ready),
            "oldest_dead_seconds": age(self.depth.oldest_dead),
            "problem": self.problem.as_ref().map(describe),
            "route": route,
        })
    }

    fn measured(&self) -> QueueGauges {
        let age = |since: Option<Timestamp>| since.map(|since| self.age(since));
        QueueGauges {
            ready: self.depth.ready,
            delayed: self.depth.delayed,
            in_flight: self.depth.leased,
            dead: self.depth.dead,
            oldest_ready: age(self.depth.oldest_ready),
            oldest_dead: age(self.depth.oldest_dead),
        }
    }

    fn age(&self, since: Timestamp) -> Duration {
        let age = self.now.duration_since(since);
        if age.is_negative() { Duration::ZERO } else { age.unsigned_abs() }
    }
}
