//! How messages of one queue are handled.

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

/// Everything that a message passes through on its way to its handler.
pub type HandlerService = BoxCloneSyncService<Context, (), HandlerError>;

/// How many messages are sent ahead for each that is in hand.
const AHEAD: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// How often to look into an empty queue of a transport that does not wake us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// The first wait; it doubles while the queue stays empty.
    pub first: Duration,
    /// The longest wait.
    pub most: Duration,
}

impl Default for Polling {
    /// From 1 s to 5 s.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_secs(5) }
    }
}

/// A queue, what handles its messages, and how.
///
/// The defaults are careful ones: 16 at a time, 30 s leases that are renewed while a handler runs, five
/// minutes for a handler, the policy [for jobs](RetryPolicy::jobs), 5 deliveries without an outcome.
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
    pub(crate) subscribe: SubscribeOptions,
    pub(crate) polling: Polling,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) correlation: CorrelationIds,
    log: Option<Log>,
    observers: Vec<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<Mutex<StdRng>>,
    pub(crate) quarantine: Quarantine,
}

impl Worker {
    /// Handles messages of `queue` with `service`, for example a [`Router`](crate::Router).
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `queue` is no name for a queue.
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
            concurrency: NonZeroU32::MIN,
            subscribe: SubscribeOptions::default(),
            polling: Polling::default(),
            gate: Arc::new(AlwaysOpen),
            correlation: CorrelationIds::Shown,
            log: Some(Log::default()),
            observers: Vec::new(),
            clock: Arc::new(SystemClock),
            random: Arc::new(Mutex::new(StdRng::from_rng(&mut rand::rng()))),
            quarantine: Quarantine::default(),
        }
        .concurrency(16))
    }

    /// Goes around everything so far. Each try of a message passes through it.
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

    /// Whether and when a failed message is tried again: a [`RetryPolicy`], or a [`RetryStrategy`] of your own.
    pub fn policy(mut self, policy: impl RetryStrategy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// The same for messages of one type only, and so for their handler:
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

    /// What becomes of a message whose failures use up no retry; see [`UncountedError`](crate::UncountedError).
    pub fn uncounted(mut self, policy: UncountedPolicy) -> Self {
        self.uncounted = policy;
        self
    }

    /// How often a failed handler is run again at once, in the same process, before the attempt counts as failed.
    /// Without this the policy says; most say 0. At most 10.
    pub fn immediate_retries(mut self, retries: u32) -> Self {
        self.immediate_retries = Some(retries);
        self
    }

    /// How often a message may be handed out without an outcome (its process died, its lease was lost)
    /// before it is set aside unhandled.
    pub fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.max_deliveries = deliveries.max(1);
        self
    }

    /// How long a try may take. Beyond that it is cancelled and has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many loops fetch messages, from 1 to 100. Total concurrency is loops ×
    /// [`concurrency`](Self::concurrency).
    pub fn fetch_loops(mut self, loops: u32) -> Self {
        self.fetch_loops = within(loops, 100);
        self
    }

    /// How many messages each fetch loop has in hand at a time, from 1 to 10,000. Where a broker sends messages
    /// ahead it sends twice as many, so that the next is there when one is done.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.concurrency = within(concurrency, 10_000);
        self.subscribe.prefetch = self.concurrency.saturating_mul(AHEAD);
        self
    }

    /// For how long a message is leased, from 1 s to 7 days; renewed three times within that while its
    /// handler runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.subscribe.lease = lease.clamp(Duration::from_secs(1), Duration::from_secs(7 * 86_400));
        self
    }

    /// How many bytes of bodies may be in hand before no more messages are taken; 64 MiB unless said otherwise. One
    /// receive may bring as much again, and a single message may be larger.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.subscribe.max_bytes = bytes.max(1);
        self
    }

    /// How an empty queue is looked into, where the transport does not wake us.
    /// Waits below 10 ms are 10 ms.
    pub fn polling(mut self, polling: Polling) -> Self {
        let first = polling.first.max(Duration::from_millis(10));
        self.polling = Polling { first, most: polling.most.max(first) };
        self
    }

    /// Who says when messages may be taken, and how many.
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = gate;
        self
    }

    /// One more who is told what happens.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Nobody is told what happens, not even the log.
    pub fn without_observers(mut self) -> Self {
        self.log = None;
        self.observers.clear();
        self
    }

    /// Whether correlation ids are in the log; they are, unless this says otherwise.
    pub fn correlation_ids(mut self, correlation: CorrelationIds) -> Self {
        self.correlation = correlation;
        self.log = self.log.map(|log| log.correlation_ids(correlation));
        self
    }

    /// Shows the text of each error in the log, and says so loudly when the worker starts.
    ///
    /// **For development only**: an error's text may quote whatever the handler worked on, such as a patient's name.
    /// Nothing but this call turns it on: no environment variable, no build flag.
    pub fn show_error_texts_for_development(mut self) -> Self {
        self.log = self.log.map(Log::show_error_texts_for_development);
        self
    }

    /// What tells the time, and what chance begins with; for tests that must be repeatable.
    pub fn deterministic(mut self, clock: Arc<dyn Clock>, seed: u64) -> Self {
        self.clock = clock;
        self.random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        self
    }

    /// The longest delay that any policy of this worker asks for of its own accord.
    pub fn largest_delay(&self) -> Duration {
        let policies = self.policies_by_type.values().chain([&self.policy]);
        policies.map(|policy| policy.largest_delay()).max().unwrap_or_default()
    }

    /// The policy for a message.
    pub(crate) fn policy_of(&self, message: &Message) -> &dyn RetryStrategy {
        let own = self.policies_by_type.get(message.message_type.as_str());
        &**own.unwrap_or(&self.policy)
    }

    /// How often a failed handler is run again at once on this message.
    pub(crate) fn immediate_retries_of(&self, message: &Message) -> u32 {
        let retries = self.immediate_retries;
        let retries = retries.unwrap_or_else(|| self.policy_of(message).immediate_retries());
        retries.min(MAX_IMMEDIATE_RETRIES)
    }

    /// Says what an operator must know before the first message.
    pub(crate) fn starts(&self) {
        if let Some(log) = &self.log {
            log.warn_of_error_texts(&self.queue);
        }
    }

    pub(crate) fn tell(&self, message: &Message, event: &Event<'_>) {
        self.each_observer(|observer| observer.message(&self.queue, message, event));
    }

    /// An observer that panics must not take the settling of messages along.
    pub(crate) fn each_observer(&self, tell: impl Fn(&dyn Observer)) {
        let log = self.log.iter().map(|log| log as &dyn Observer);
        for observer in log.chain(self.observers.iter().map(|observer| &**observer)) {
            if catch_unwind(AssertUnwindSafe(|| tell(observer))).is_err() {
                tracing::error!(queue = %self.queue, "an observer panicked");
            }
        }
    }

    /// The queue.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }
}

fn within(number: u32, most: u32) -> NonZeroU32 {
    NonZeroU32::new(number.min(most)).unwrap_or(NonZeroU32::MIN)
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.queue)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
