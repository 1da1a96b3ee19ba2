//! The poison-queue retry processor: takes a batch from a poison queue, delivers each message once more, and deletes it,
//! updates it for a later retry, or makes it a dead letter.
//!
//! | where | what |
//! | --- | --- |
//! | `mod.rs` | a run, and the schedule |
//! | `message.rs` | one message, from its delivery to its end |
//! | `settle.rs` | the changes to the queue, repeated while the message is ours |
//! | `report.rs` | spans and log lines |
//! | `summary.rs` | what a run did, and why one could not proceed |

mod message;
mod report;
mod settle;
mod summary;

use std::{
    fmt,
    num::NonZeroU32,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use bezoar_core::{
    Clock, ErrorKind, QueueName, RetryStrategy, SystemClock, TransportError,
    poison_retry::{InvalidPoisonRetry, PoisonMessage, PoisonQueue, PoisonRetryOptions},
};
use futures_util::FutureExt;
use rand::{SeedableRng, rngs::StdRng};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};
use tracing::Instrument;

pub use self::summary::{PoisonRun, PoisonRunError};
use self::{message::Attempted, summary::Fate};
use crate::{Context, CorrelationIds, HandlerError, HandlerService, Shutdown};

/// Delivers the messages of a poison queue again, with growing delays, until they succeed or become dead letters.
///
/// Each delivery is one call of a service, such as a [`Router`](crate::Router) or an HTTP endpoint. Every failure uses up
/// a retry, also a panic and a timeout; a failure that is not
/// [retryable](bezoar_core::FailureKind::is_retryable) makes the message a dead letter at once. Cheap to clone.
///
/// A process that dies during a run loses nothing: its messages become visible again when their invisibility ends. A
/// message that was delivered and not deleted is delivered again.
#[derive(Clone)]
pub struct PoisonRetry {
    queue: Arc<dyn PoisonQueue>,
    name: QueueName,
    service: HandlerService,
    options: PoisonRetryOptions,
    strategy: Arc<dyn RetryStrategy>,
    correlation: CorrelationIds,
    clock: Arc<dyn Clock>,
    random: Arc<Mutex<StdRng>>,
}

impl PoisonRetry {
    /// Delivers the messages of `queue` to `service`.
    ///
    /// # Errors
    ///
    /// [`InvalidPoisonRetry`] names every option that is out of range.
    pub fn new<T>(
        queue: Arc<dyn PoisonQueue>,
        options: PoisonRetryOptions,
        service: T,
    ) -> Result<Self, InvalidPoisonRetry>
    where
        T: Service<Context, Response = (), Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        T::Future: Send,
    {
        options.check()?;
        let handler_error = |error: T::Error| HandlerError::from(error.into());
        Ok(Self {
            name: queue.name().clone(),
            queue,
            service: BoxCloneSyncService::new(service.map_err(handler_error)),
            strategy: Arc::new(options.strategy()?),
            options,
            correlation: CorrelationIds::Shown,
            clock: Arc::new(SystemClock),
            random: Arc::new(Mutex::new(StdRng::from_rng(&mut rand::rng()))),
        })
    }

    /// Asks `strategy` after a failed delivery, in place of `base` and `jitter` of the options. Its ledger's `failed` is
    /// the retry count of the message.
    ///
    /// # Errors
    ///
    /// [`InvalidPoisonRetry`] if its largest delay is above 7 days.
    pub fn strategy(mut self, strategy: impl RetryStrategy) -> Result<Self, InvalidPoisonRetry> {
        self.options.check_with(&strategy)?;
        self.strategy = Arc::new(strategy);
        Ok(self)
    }

    /// Uses another name for the queue in logs, traces and deliveries.
    pub fn named(mut self, name: QueueName) -> Self {
        self.name = name;
        self
    }

    /// Whether logs and traces contain correlation ids. By default they do.
    pub fn correlation_ids(mut self, correlation: CorrelationIds) -> Self {
        self.correlation = correlation;
        self
    }

    /// Uses this clock, and this seed for all randomness, for repeatable tests.
    pub fn deterministic(mut self, clock: Arc<dyn Clock>, seed: u64) -> Self {
        self.clock = clock;
        self.random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        self
    }

    /// The name of the queue in logs and traces.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Its options.
    pub fn options(&self) -> &PoisonRetryOptions {
        &self.options
    }

    /// Runs now, and then as often as `options.every` says, until shutdown. A run that has begun is finished, unless the
    /// shutdown aborts it. A run that cannot proceed is logged, and the next one tries again.
    pub async fn run(&self, shutdown: Shutdown) {
        self.run_each(shutdown, || self.run_once()).await;
    }

    /// The same schedule, with something around each run.
    pub async fn run_each<F: Future>(&self, shutdown: Shutdown, mut run: impl FnMut() -> F) {
        let mut ticks = interval(self.options.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased; () = shutdown.draining() => return, _ = ticks.tick() => () }
            tokio::select! { biased; () = shutdown.aborting() => return, _ = run() => () }
        }
    }

    /// Takes a batch, or as many as `options.batches` says, and settles each message. An empty queue is a success; a
    /// queue that does not exist is created.
    ///
    /// Dropping the future stops the deliveries; their messages become visible again later.
    ///
    /// # Errors
    ///
    /// [`PoisonRunError`] if no message could be taken. What happens to a message never fails the run.
    pub async fn run_once(&self) -> Result<PoisonRun, PoisonRunError> {
        let span = report::run_span(&self.name);
        let run = self.batches().instrument(span.clone()).await;
        report::run_ended(&span, &self.name, &run);
        run
    }

    async fn batches(&self) -> Result<PoisonRun, PoisonRunError> {
        let mut run = PoisonRun::default();
        for _ in 0..self.options.batches {
            let until = Instant::now() + self.options.invisibility;
            let taken = self.take().await.map_err(|source| PoisonRunError {
                queue: self.name.clone(),
                so_far: run,
                source,
            })?;
            let is_full = taken.len() >= self.options.batch as usize;
            run.add(&self.process(taken, until).await);
            if !is_full {
                break;
            }
        }
        Ok(run)
    }

    /// Takes a batch, and creates the queue if it does not exist.
    async fn take(&self) -> Result<Vec<Box<dyn PoisonMessage>>, TransportError> {
        let max = NonZeroU32::new(self.options.batch).unwrap_or(NonZeroU32::MIN);
        let take = || self.bounded(self.queue.take(max, self.options.invisibility));
        match take().await {
            Err(missing) if matches!(missing.kind, ErrorKind::QueueNotFound(_)) => {
                self.bounded(self.queue.create()).await?;
                tracing::info!(queue = %self.name, "created the poison queue");
                take().await
            }
            taken => taken,
        }
    }

    /// A request that takes as long as a message stays invisible is of no use any more. A panic is an error.
    async fn bounded<T>(
        &self,
        request: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let error = |kind, why: &'static str| {
            Err(TransportError::new(kind, "poison queue", "take").with_source(why))
        };
        let request = AssertUnwindSafe(request).catch_unwind();
        match timeout(self.options.invisibility, request).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => error(ErrorKind::Other, "the access to the queue panicked"),
            Err(_) => error(ErrorKind::Unavailable, "no answer"),
        }
    }

    /// Processes all messages concurrently, each in a task of its own.
    async fn process(&self, taken: Vec<Box<dyn PoisonMessage>>, until: Instant) -> PoisonRun {
        let mut run = PoisonRun { taken: taken.len() as u64, ..PoisonRun::default() };
        let mut tasks = JoinSet::new();
        for message in taken {
            let attempted = Attempted { processor: self.clone(), message, until };
            tasks.spawn(attempted.run().in_current_span());
        }
        while let Some(ended) = tasks.join_next().await {
            run.count(ended.unwrap_or(Fate::Left));
        }
        run
    }
}

impl fmt::Debug for PoisonRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoisonRetry")
            .field("queue", &self.name)
            .field("options", &self.options)
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}
