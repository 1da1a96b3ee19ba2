//! The processors of `[[poison_retry]]`: each runs on its schedule, and on demand.

mod endpoint;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use bezoar::{PoisonRetry, PoisonRun, PoisonRunError, QueueName, Shutdown, Timestamp};
use tokio::{
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use self::endpoint::PoisonEndpoint;
use crate::{
    api_types,
    app::App,
    config::PoisonRetryConfig,
    endpoint::{CallOptions, EndpointCaller, EndpointClient},
    route::describe,
    telemetry::PoisonRetryMetrics,
};

/// How much longer than its endpoint a delivery may take, so that the endpoint's more specific failure is recorded.
const MARGIN: Duration = Duration::from_secs(1);

/// The processors, by queue.
#[derive(Debug, Default)]
pub(crate) struct PoisonRetries {
    running: Mutex<BTreeMap<QueueName, Arc<Processor>>>,
    /// Processors that a reload replaced, and that may still be in a run.
    ending: Mutex<Vec<Arc<Processor>>>,
}

/// Processors that do nothing yet.
pub(crate) struct PreparedProcessors(Vec<Arc<Processor>>);

/// One processor.
#[derive(Debug)]
pub(crate) struct Processor {
    config: PoisonRetryConfig,
    processor: PoisonRetry,
    /// A run on demand waits for the one before it.
    turn: Semaphore,
    last: Mutex<Option<LastRun>>,
    metrics: PoisonRetryMetrics,
    shutdown: Shutdown,
    schedule: Mutex<Option<JoinHandle<()>>>,
}

/// How the last run ended.
#[derive(Debug, Clone)]
struct LastRun {
    at: Timestamp,
    result: Result<PoisonRun, String>,
}

impl PoisonRetries {
    /// Prepares processors. Changes nothing.
    pub(crate) fn prepare<'c>(
        &self,
        app: &App,
        configs: impl IntoIterator<Item = &'c PoisonRetryConfig>,
        client: &EndpointClient,
    ) -> Result<PreparedProcessors> {
        let processor = |config: &PoisonRetryConfig| {
            let client = client.with_tls(config.tls.options());
            Processor::new(app, config, client).map(Arc::new)
        };
        configs.into_iter().map(processor).collect::<Result<_>>().map(PreparedProcessors)
    }

    /// Starts prepared processors. One that already works on the same queue finishes its run and ends.
    pub(crate) fn replace(&self, app: &Arc<App>, prepared: PreparedProcessors) {
        let mut ending = lock(&self.ending);
        ending.retain(|it| !it.has_ended());
        for processor in prepared.0 {
            if let Some(before) = self.find(processor.queue()) {
                before.shutdown.drain();
                *lock(&processor.last) = lock(&before.last).clone();
                ending.push(before);
            }
            processor.schedule(app.clone());
            lock(&self.running).insert(processor.queue().clone(), processor);
        }
    }

    /// All processors, by queue.
    pub(crate) fn all(&self) -> Vec<Arc<Processor>> {
        lock(&self.running).values().cloned().collect()
    }

    /// The processor of a queue.
    pub(crate) fn find(&self, queue: &QueueName) -> Option<Arc<Processor>> {
        lock(&self.running).get(queue).cloned()
    }

    /// Lets runs finish until `until`, and then aborts them: their messages become visible again later.
    pub(crate) async fn stop(&self, until: Instant) {
        let mut all = self.all();
        all.append(&mut lock(&self.ending));
        all.iter().for_each(|it| it.shutdown.drain());
        let stopped = async {
            for processor in &all {
                processor.stopped().await;
            }
        };
        if timeout_at(until, stopped).await.is_err() {
            all.iter().for_each(|it| it.shutdown.abort());
        }
    }
}

impl Processor {
    fn new(app: &App, config: &PoisonRetryConfig, client: EndpointClient) -> Result<Self> {
        let queue = &config.queue;
        let broker = app.broker(queue).with_context(|| format!("{queue} has no transport"))?;
        let access = broker.poison_queue(queue, config.fields.clone())?;
        let correlation = app.correlation;
        let options = CallOptions {
            ack: config.ack_mode(),
            timeout: config.options.timeout,
            headers: config.extra_headers(),
            secrets: config.signing_secrets(),
            traceparent: Some(Arc::new(move |context| correlation.outgoing(context))),
            ..CallOptions::new(config.to.clone())
        };
        let endpoint = EndpointCaller::new(options, client, app.clock.clone());
        let mut options = config.options;
        options.timeout = longer(options.timeout, options.invisibility);
        let processor = PoisonRetry::new(access, options, PoisonEndpoint(Arc::new(endpoint)))
            .with_context(|| format!("poison_retry of {queue}"))?
            .named(queue.clone())
            .correlation_ids(app.correlation.ids());
        Ok(Self {
            config: config.clone(),
            processor,
            turn: Semaphore::new(1),
            last: Mutex::default(),
            metrics: app.metrics.poison_retry(queue.as_str()),
            shutdown: app.shutdown.child(),
            schedule: Mutex::default(),
        })
    }

    /// Runs on its schedule until shutdown, in one of the gateways on a store.
    fn schedule(self: &Arc<Self>, app: Arc<App>) {
        let (it, shutdown) = (self.clone(), self.shutdown.clone());
        let task = tokio::spawn(async move {
            let run = |term| it.processor.run_each(term, || it.run(&app));
            app.leadership.while_leading(&shutdown, run).await;
        });
        *lock(&self.schedule) = Some(task);
        let (queue, to) = (&self.config.queue, self.config.to.origin());
        tracing::info!(%queue, to, dead_letter = %self.config.dead_letter, "poison retry started");
    }

    /// One run, after the one before it.
    pub(crate) async fn run(&self, app: &App) -> Result<PoisonRun, PoisonRunError> {
        let _turn = self.turn.acquire().await;
        let started = Instant::now();
        let run = self.processor.run_once().await;
        let result = run.as_ref().map(|run| *run).map_err(|failed| describe(&failed.source));
        let at = app.now();
        let counts = run.as_ref().map_err(|failed| &failed.so_far);
        self.metrics.ran(counts, started.elapsed(), at);
        *lock(&self.last) = Some(LastRun { at, result });
        run
    }

    fn has_ended(&self) -> bool {
        lock(&self.schedule).as_ref().is_none_or(JoinHandle::is_finished)
    }

    async fn stopped(&self) {
        let task = lock(&self.schedule).take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    pub(crate) fn queue(&self) -> &QueueName {
        &self.config.queue
    }

    /// The processor as the API returns it.
    pub(crate) fn to_api(&self) -> api_types::PoisonRetry {
        let options = &self.config.options;
        api_types::PoisonRetry {
            queue: self.config.queue.to_string(),
            to: self.config.to.origin().to_owned(),
            dead_letter: self.config.dead_letter.to_string(),
            every_seconds: options.every.as_secs_f64(),
            max_attempts: options.max_attempts.into(),
            last_run: lock(&self.last).as_ref().map(LastRun::to_api),
        }
    }
}

impl LastRun {
    fn to_api(&self) -> api_types::PoisonRun {
        api_types::PoisonRun {
            ended_at: self.at,
            problem: self.result.as_ref().err().cloned(),
            counts: self.result.as_ref().ok().map(Into::into),
        }
    }
}

/// A little longer than `timeout`, and still shorter than the invisibility.
fn longer(timeout: Duration, invisibility: Duration) -> Duration {
    let room = invisibility.saturating_sub(timeout) / 2;
    timeout + room.min(MARGIN)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_has_a_margin_and_ends_before_the_invisibility() {
        let at = |timeout, invisibility| {
            longer(Duration::from_millis(timeout), Duration::from_millis(invisibility)).as_millis()
        };
        assert_eq!(at(30_000, 300_000), 31_000);
        assert_eq!(at(900, 1_000), 950);
        assert_eq!(at(999, 1_000), 999);
    }
}
