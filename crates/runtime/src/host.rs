//! Runs workers until told to stop.

use std::{sync::Arc, time::Duration};

use bezoar_core::Transport;
use tokio::task::JoinSet;

use crate::{Shutdown, Worker, fetch::FetchLoop};

/// Starts and stops any number of workers together.
#[derive(Debug)]
pub struct Host {
    loops: Vec<(Arc<Worker>, Arc<dyn Transport>)>,
    grace: Duration,
}

impl Host {
    /// No workers yet.
    pub fn new() -> Self {
        Self { loops: Vec::new(), grace: Duration::from_secs(30) }
    }

    /// One more worker, on a queue of `transport`.
    pub fn worker(mut self, transport: Arc<dyn Transport>, worker: Worker) -> Self {
        worker.starts();
        let worker = Arc::new(worker);
        for _ in 0..worker.fetch_loops.get() {
            self.loops.push((worker.clone(), transport.clone()));
        }
        self
    }

    /// How long handlers may take to finish when stopping; 30 s unless said otherwise.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Runs until `shutdown` says stop and everything has been settled or handed back.
    ///
    /// Dropping the future stops at once; what was in hand returns when its leases run out.
    ///
    /// # Errors
    ///
    /// [`Defect`] if a loop panicked; the others were stopped gracefully then.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Defect> {
        let shutdown = shutdown.child(); // another host's grace period is its own
        let mut running = JoinSet::new();
        for (worker, transport) in self.loops {
            let (shutdown, grace) = (shutdown.clone(), self.grace);
            let started = worker.clock.now();
            running.spawn(FetchLoop { worker, transport, shutdown, grace, started }.run());
        }
        let mut outcome = Ok(());
        while let Some(ended) = running.join_next().await {
            if ended.is_err() {
                tracing::error!("a fetch loop ended by a defect; the others are stopped");
                shutdown.drain();
                outcome = Err(Defect);
            }
        }
        outcome
    }
}

/// A worker's loop panicked, which it should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker ended by a defect; the log says more, please report it")]
pub struct Defect;

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}
