//! Runs replays and discards step by step, at their rate, and resumes them after a restart.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar_core::{
    Clock,
    catalogue::{Catalogue, CatalogueError, NextStep, Operation, OperationId, OperationKind},
};
use bezoar_runtime::Shutdown;
use tokio::{sync::Notify, time::sleep};

use crate::pace::Pace;

/// The number of dead letters per transaction; other writes proceed in between.
const STEP: u32 = 500;
/// How often outcomes are checked.
const LOOK: Duration = Duration::from_millis(100);
/// How often to check for operations of other processes while this process has none.
const IDLE: Duration = Duration::from_secs(2);
/// How long to wait after an error of the store.
const TROUBLE: Duration = Duration::from_secs(2);
/// How many operations run at a time; others wait.
const AT_ONCE: u32 = 1_000;

/// Runs every active operation. The progress is only in the store, so that an interrupted operation resumes where it
/// stopped: nothing is done twice or left out.
#[derive(Debug)]
pub struct Conductor {
    catalogue: Arc<dyn Catalogue>,
    clock: Arc<dyn Clock>,
    woken: Notify,
    /// Replays that wait for their canary, with the start of the wait on the steady clock.
    waiting: Mutex<HashMap<OperationId, Duration>>,
}

impl Conductor {
    /// A conductor for the operations in a catalogue. Rates and waiting times follow the clock's
    /// [`steady`](Clock::steady) time, so that setting the time of day changes neither.
    pub fn new(catalogue: Arc<dyn Catalogue>, clock: Arc<dyn Clock>) -> Self {
        Self { catalogue, clock, woken: Notify::new(), waiting: Mutex::default() }
    }

    /// Wakes it up immediately, after a command.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// How long a replay has been waiting for its canary; `None` if it is not. Its messages may be delayed because
    /// their endpoint is down. Measured since this process started.
    pub fn waiting_for_canary(&self, operation: OperationId) -> Option<Duration> {
        let now = self.clock.steady();
        self.waiting().get(&operation).map(|since| now.saturating_sub(*since))
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<OperationId, Duration>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers when these started to wait, and drops all others.
    fn note_waiting(&self, running: &[Operation]) {
        let waits = |operation: &&Operation| operation.next() == NextStep::AwaitCanary;
        let ids: Vec<_> = running.iter().filter(waits).map(|operation| operation.id).collect();
        let (now, mut waiting) = (self.clock.steady(), self.waiting());
        waiting.retain(|id, _| ids.contains(id));
        for id in ids {
            waiting.entry(id).or_insert(now);
        }
    }

    /// Runs until shutdown. Run it once per process.
    pub async fn run(&self, shutdown: Shutdown) {
        let mut paces = HashMap::new();
        loop {
            let pause = match self.round(&mut paces).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "replays and discards are waiting for the store");
                    TROUBLE
                }
            };
            tokio::select! {
                biased;
                () = shutdown.draining() => return,
                () = self.woken.notified() => (),
                () = sleep(pause) => (),
            }
        }
    }

    /// Runs one step of each operation; returns how long to wait before the next round.
    async fn round(
        &self,
        paces: &mut HashMap<OperationId, Pace>,
    ) -> Result<Duration, CatalogueError> {
        let running = self.catalogue.running(AT_ONCE).await?;
        self.note_waiting(&running);
        paces.retain(|id, _| running.iter().any(|operation| operation.id == *id));
        let mut pause = IDLE;
        for operation in &running {
            // An error of one operation must not stop the others.
            let step = self.step(operation, paces).await.unwrap_or_else(|error| {
                tracing::warn!(operation = %operation.id, %error, "cannot continue a replay or discard, retrying");
                TROUBLE
            });
            pause = pause.min(step);
        }
        Ok(pause)
    }

    /// Runs the next step of an operation; returns how long to wait before the one after.
    async fn step(
        &self,
        operation: &Operation,
        paces: &mut HashMap<OperationId, Pace>,
    ) -> Result<Duration, CatalogueError> {
        match operation.next() {
            NextStep::AwaitCanary | NextStep::AwaitOutcomes => Ok(LOOK),
            NextStep::Stop => self.stop(operation).await,
            NextStep::Go(left) => {
                let most = u32::try_from(left).unwrap_or(u32::MAX).min(STEP);
                let Some(per_second) = rate(operation) else {
                    let advance = self.catalogue.advance(operation.id, most).await?;
                    return Ok(if advance.done > 0 { Duration::ZERO } else { LOOK });
                };
                let now = self.clock.steady();
                let pace = paces.entry(operation.id).or_insert_with(|| Pace::new(per_second, now));
                let allowed = pace.allowance(now).min(most);
                if allowed > 0 {
                    let advance = self.catalogue.advance(operation.id, allowed).await?;
                    pace.spent(advance.done);
                }
                Ok(pace.wait().max(Duration::from_millis(1)).min(LOOK))
            }
        }
    }

    async fn stop(&self, operation: &Operation) -> Result<Duration, CatalogueError> {
        let why = why_stopped(operation);
        self.catalogue.stop(operation.id, why).await?;
        tracing::warn!(operation = %operation.id, failed = operation.failed, "a replay stopped because {why}");
        Ok(LOOK)
    }
}

/// Without counts: more outcomes arrive after it has stopped, and would contradict them.
fn why_stopped(operation: &Operation) -> &'static str {
    match operation.kind {
        OperationKind::Replay { canary, .. } if operation.done <= u64::from(canary) => {
            "a canary message failed"
        }
        _ => "too many messages failed again",
    }
}

fn rate(operation: &Operation) -> Option<f64> {
    match operation.kind {
        OperationKind::Replay { per_second, .. } => per_second.filter(|rate| *rate > 0.0),
        OperationKind::Discard => None,
    }
}

#[cfg(test)]
mod tests;
