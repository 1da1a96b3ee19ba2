//! A queue, the handler of its messages, and the settings.

mod checks;

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroU32,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar_core::{
    Clock, Invalid, MAX_IMMEDIATE_RETRIES, Message, QueueName, RetryPolicy, RetryStrategy,
    SubscribeOptions, SystemClock, UncountedPolicy,
};
use rand::{SeedableRng, rngs::StdRng};
use tower::{BoxError, Layer, Service, ServiceExt, util::BoxCloneSyncService};

use crate::{
    Context, CorrelationIds, Event, Gate, HandlerError, Log, Observer, gate::AlwaysOpen,
    quarantine::Quarantine,
};

/// The handler of a worker with every layer around it.
pub type HandlerService = BoxCloneSyncService<Context, (), HandlerError>;

/// The default for how many messages are handled at a time.
const CONCURRENCY: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// How many messages a broker sends ahead for each one that is handled at a time.
const AHEAD: NonZeroU32 = NonZeroU32::new(2).unwrap();

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// How often an empty queue is polled, on transports that do not wake a waiting worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// The first wait; it doubles while the queue stays empty.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Polling {
    /// Waits of 1 s, doubling to 5 s.
    fn default() -> Self {
        Self { first: SECOND, longest: 5 * SECOND }
    }
}

/// A queue, the handler of its messages, and the settings.
///
/// Each setting has a range. When the worker runs, it refuses all settings outside of their ranges in one error;
/// it never clamps them. [`check`](Worker::check) does the same earlier.
#[derive(Clone)]
pub struct Worker {
    pub(crate) queue: QueueName,
    pub(crate) service: HandlerService,
    policy: Arc<dyn RetryStrategy>,
    policies_by_type: HashMap<String, Arc<dyn RetryStrategy>>,
    pub(crate) uncounted: UncountedPolicy,
    immediate_retries: Option<u32>,
    pub(crate) max_deliveries: u32,
    pub(crate) timeout: Duration,
    pub(crate) fetch_loops: NonZeroU32,
    pub(crate) concurrency: NonZeroU32,
    prefetch: Option<NonZeroU32>,
    pub(crate) subscribe: SubscribeOptions,
    pub(crate) polling: Polling,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) correlation: CorrelationIds,
    log: Option<Log>,
    observers: Vec<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<Mutex<StdRng>>,
    pub(crate) quarantine: Quarantine,
    /// Settings that are out of range.
    problems: Vec<Invalid>,
}

impl Worker {
    /// Handles messages of `queue` with `service`, for example a [`Router`](crate::Router).
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `queue` is not a valid name for a queue.
    pub fn new<T>(queue: impl AsRef<str>, service: T) -> Result<Self, Invalid>
    where
        T: Service<Context, Response = (), Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        T::Future: Send,
    {
        let handler_error = |error: T::Error| HandlerError::from(error.into());
        Ok(Self {
            queue: QueueName::new(queue)?,
            service: BoxCloneSyncService::new(service.map_err(handler_error)),
            policy: Arc::new(RetryPolicy::default()),
            policies_by_type: HashMap::new(),
            uncounted: UncountedPolicy::default(),
            immediate_retries: None,
            max_deliveries: 5,
            timeout: Duration::from_secs(300),
            fetch_loops: NonZeroU32::MIN,
            concurrency: CONCURRENCY,
            prefetch: None,
            subscribe: SubscribeOptions::default(),
            polling: Polling::default(),
            gate: Arc::new(AlwaysOpen),
            correlation: CorrelationIds::Shown,
            log: Some(Log::default()),
            observers: Vec::new(),
            clock: Arc::new(SystemClock),
            random: Arc::new(Mutex::new(StdRng::from_rng(&mut rand::rng()))),
            quarantine: Quarantine::default(),
            problems: Vec::new(),
        })
    }

    /// Wraps everything added so far. Each try of a message passes through the layer.
    pub fn layer<L, T>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService, Service = T>,
        T: Service<Context, Response = (), Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        T::Future: Send,
    {
        let handler_error = |error: T::Error| HandlerError::from(error.into());
        self.service = BoxCloneSyncService::new(layer.layer(self.service).map_err(handler_error));
        self
    }

    /// Sets whether and when a failed message is retried: a [`RetryPolicy`], or a [`RetryStrategy`] of your
    /// own.
    pub fn policy(mut self, policy: impl RetryStrategy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Sets the policy for messages of one type only, and so for their handler:
    ///
    /// ```
    /// # async fn store() {}
    /// # async fn notify() {}
    /// use bezoar_runtime::{Router, Worker};
    /// # use bezoar_core::RetryPolicy;
    ///
    /// let router = Router::new().on("lab.result", store).on("lab.notice", notify);
    /// let worker = Worker::new("lab", router)?
    ///     .policy(RetryPolicy::jobs())
    ///     .policy_for("lab.notice", RetryPolicy::webhook());
    /// # Ok::<(), bezoar_core::Invalid>(())
    /// ```
    pub fn policy_for(
        mut self,
        message_type: impl Into<String>,
        policy: impl RetryStrategy,
    ) -> Self {
        self.policies_by_type.insert(message_type.into(), Arc::new(policy));
        self
    }

    /// Sets the policy for failures that use up no retry; see
    /// [`UncountedError`](crate::UncountedError).
    pub fn uncounted(mut self, policy: UncountedPolicy) -> Self {
        if let Err(invalid) = policy.check() {
            self.problems.push(invalid);
        }
        self.uncounted = policy;
        self
    }

    /// How often a failed handler is run again immediately, in the same process, before the attempt counts as failed: 0
    /// to 10. By default the policy decides; most use 0.
    pub fn immediate_retries(mut self, retries: u32) -> Self {
        self.require("immediate_retries", 0..=MAX_IMMEDIATE_RETRIES, retries);
        self.immediate_retries = Some(retries);
        self
    }

    /// How often a message may be delivered without an outcome (its process crashed, its lease was lost)
    /// before it is dead-lettered without being handled: at least 1. The default is 5.
    pub fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.require("max_deliveries", 1..=u32::MAX, deliveries);
        self.max_deliveries = deliveries;
        self
    }

    /// How long one try may take before it is cancelled and counts as failed: longer than 0. The default is 5
    /// minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.require_duration("timeout", Duration::from_nanos(1)..=Duration::MAX, timeout);
        self.timeout = timeout;
        self
    }

    /// How many loops fetch messages: 1 to 100. The default is 1. Up to loops ×
    /// [`concurrency`](Self::concurrency) messages are handled at a time.
    pub fn fetch_loops(mut self, loops: u32) -> Self {
        self.fetch_loops = self.require("fetch_loops", 1..=100, loops);
        self
    }

    /// How many messages each fetch loop handles at a time: 1 to 10,000. The default is 16.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.concurrency = self.require("concurrency", 1..=10_000, concurrency);
        self
    }

    /// How many messages a broker that pushes may send ahead to each fetch loop: 1 to 65,535. The default is twice the
    /// [`concurrency`](Self::concurrency), so that the next message has arrived when a handler finishes. It has no
    /// effect on transports that are polled.
    pub fn prefetch(mut self, prefetch: u32) -> Self {
        self.prefetch = Some(self.require("prefetch", 1..=65_535, prefetch));
        self
    }

    /// How long a message is leased: 1 s to 7 days. The default is 30 s. The lease is renewed while its handler runs
    /// and until its outcome is stored.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.require_duration("lease", SECOND..=7 * DAY, lease);
        self.subscribe.lease = lease;
        self
    }

    /// How many bytes of bodies may be leased before the worker stops fetching: at least 1. The default is 64 MiB. One
    /// fetch may exceed this by the same amount, and a single message may be larger.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        if bytes == 0 {
            self.problems.push(Invalid::new("max_bytes", "is 0, at least 1 is required"));
        }
        self.subscribe.max_bytes = bytes;
        self
    }

    /// How often an empty queue is polled, on transports that do not wake a waiting worker: the first wait at
    /// least 10 ms, and no longer than the longest. The default is 1 s doubling to 5 s.
    pub fn polling(mut self, polling: Polling) -> Self {
        let first = Duration::from_millis(10)..=polling.longest;
        self.require_duration("polling.first", first, polling.first);
        self.polling = polling;
        self
    }

    /// Asks `gate` when messages may be fetched, and how many.
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = gate;
        self
    }

    /// Tells `observer` what happens, in addition to the log and to earlier observers.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Removes all observers, including the log.
    pub fn without_observers(mut self) -> Self {
        self.log = None;
        self.observers.clear();
        self
    }

    /// Whether the log contains correlation ids. By default it does.
    pub fn correlation_ids(mut self, correlation: CorrelationIds) -> Self {
        self.correlation = correlation;
        self.log = self.log.map(|log| log.correlation_ids(correlation));
        self
    }

    /// Shows the text of each error in the log, and logs a warning when the worker starts.
    ///
    /// **For development only**: an error's text may quote whatever the handler worked on, such as a patient's name.
    /// Only this call enables it: there is no environment variable and no build flag.
    pub fn show_error_texts_for_development(mut self) -> Self {
        self.log = self.log.map(Log::show_error_texts_for_development);
        self
    }

    /// Uses this clock, and this seed for all randomness, for repeatable tests.
    pub fn deterministic(mut self, clock: Arc<dyn Clock>, seed: u64) -> Self {
        self.clock = clock;
        self.random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        self
    }

    /// The longest delay that any policy of this worker itself asks for.
    pub fn largest_delay(&self) -> Duration {
        let policies = self.policies_by_type.values().chain([&self.policy]);
        policies.map(|policy| policy.largest_delay()).max().unwrap_or_default()
    }

    /// The policy for a message.
    pub(crate) fn policy_of(&self, message: &Message) -> &dyn RetryStrategy {
        let own = self.policies_by_type.get(message.message_type.as_str());
        &**own.unwrap_or(&self.policy)
    }

    /// How often a failed handler is run again immediately on this message.
    pub(crate) fn immediate_retries_of(&self, message: &Message) -> u32 {
        let retries = self.immediate_retries;
        let retries = retries.unwrap_or_else(|| self.policy_of(message).immediate_retries());
        retries.min(MAX_IMMEDIATE_RETRIES)
    }

    /// Logs what an operator must know before the first message.
    pub(crate) fn starts(&self) {
        if let Some(log) = &self.log {
            log.warn_of_error_texts(&self.queue);
        }
    }

    /// The queue whose messages it handles.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// How the queue is opened.
    pub(crate) fn subscribe_options(&self) -> SubscribeOptions {
        let prefetch = self.prefetch.unwrap_or(self.concurrency.saturating_mul(AHEAD));
        self.subscribe.with_prefetch(prefetch)
    }

    pub(crate) fn tell(&self, message: &Message, event: &Event<'_>) {
        self.each_observer(|observer| observer.message(&self.queue, message, event));
    }

    /// An observer that panics must not stop the settling of messages.
    pub(crate) fn each_observer(&self, tell: impl Fn(&dyn Observer)) {
        let log = self.log.iter().map(|log| log as &dyn Observer);
        for observer in log.chain(self.observers.iter().map(|observer| &**observer)) {
            if catch_unwind(AssertUnwindSafe(|| tell(observer))).is_err() {
                tracing::error!(queue = %self.queue, "an observer panicked");
            }
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.queue)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
