//! Carries replays and discards on, at their rate, from where they were.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bezoar_core::catalogue::{
    Catalogue, CatalogueError, NextStep, Operation, OperationId, OperationKind,
};
use bezoar_runtime::Shutdown;
use tokio::{sync::Notify, time::sleep};

use crate::pace::Pace;

/// How many are done in one transaction; others get their turn in between.
const STEP: u32 = 500;
/// How often outcomes are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How often somebody else's operations are looked for while there are none of ours.
const IDLE: Duration = Duration::from_secs(2);
/// How long to wait after trouble with the store.
const TROUBLE: Duration = Duration::from_secs(2);
/// How many operations go on at a time; the others wait for their turn.
const AT_ONCE: u32 = 1_000;

/// Carries on every operation that runs. What an operation has done is in the store and nowhere else, so that one
/// which was cut off goes on where it was: nothing is done twice, nothing is left out.
#[derive(Debug)]
pub struct Conductor {
    catalogue: Arc<dyn Catalogue>,
    woken: Notify,
    /// Replays whose rest waits for the canary, and since when.
    waiting: Mutex<HashMap<OperationId, Instant>>,
}

impl Conductor {
    /// A conductor of the operations in a catalogue.
    pub fn new(catalogue: Arc<dyn Catalogue>) -> Self {
        Self { catalogue, woken: Notify::new(), waiting: Mutex::default() }
    }

    /// Has it look at once, because somebody gave an order.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// For how long the rest of a replay has waited for the outcome of its canary, if it does: its messages may
    /// be delayed because their endpoint is down. Known since this program runs.
    pub fn waiting_for_canary(&self, operation: OperationId) -> Option<Duration> {
        self.waiting().get(&operation).map(Instant::elapsed)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<OperationId, Instant>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers since when they wait, and forgets all others.
    fn note_waiting(&self, running: &[Operation]) {
        let waits = |operation: &&Operation| operation.next() == NextStep::AwaitCanary;
        let ids: Vec<_> = running.iter().filter(waits).map(|operation| operation.id).collect();
        let mut waiting = self.waiting();
        waiting.retain(|id, _| ids.contains(id));
        for id in ids {
            waiting.entry(id).or_insert_with(Instant::now);
        }
    }

    /// Goes on until told to stop. To be run once in a program.
    pub async fn run(&self, shutdown: Shutdown) {
        let mut paces = HashMap::new();
        loop {
            let pause = match self.round(&mut paces).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "replays and discards wait for the store");
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

    /// A step of each; how long to wait before the next round.
    async fn round(
        &self,
        paces: &mut HashMap<OperationId, Pace>,
    ) -> Result<Duration, CatalogueError> {
        let running = self.catalogue.running(AT_ONCE).await?;
        self.note_waiting(&running);
        paces.retain(|id, _| running.iter().any(|operation| operation.id == *id));
        let mut pause = IDLE;
        for operation in &running {
            // One that cannot go on is no reason for the others to wait.
            let step = self.step(operation, paces).await.unwrap_or_else(|error| {
                tracing::warn!(operation = %operation.id, %error, "a replay or discard waits");
                TROUBLE
            });
            pause = pause.min(step);
        }
        Ok(pause)
    }

    /// What an operation may do now; how long to wait before it may do more.
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
                let pace = paces
                    .entry(operation.id)
                    .or_insert_with(|| Pace::new(per_second, Instant::now()));
                let allowed = pace.allowance(Instant::now()).min(most);
                if allowed > 0 {
                    let advance = self.catalogue.advance(operation.id, allowed).await?;
                    pace.spent(advance.done);
                }
                Ok(pace.wait().max(Duration::from_millis(1)).min(LOOK))
            }
        }
    }

    async fn stop(&self, operation: &Operation) -> Result<Duration, CatalogueError> {
        let why = format!("{} of {} failed again", operation.failed, operation.done);
        self.catalogue.stop(operation.id, &why).await?;
        tracing::warn!(operation = %operation.id, failed = operation.failed, "a replay stopped: too many failed again");
        Ok(LOOK)
    }
}

fn rate(operation: &Operation) -> Option<f64> {
    match operation.kind {
        OperationKind::Replay { per_second, .. } => per_second.filter(|rate| *rate > 0.0),
        OperationKind::Discard => None,
    }
}
