//! Runs workers until told to stop.

use std::{sync::Arc, time::Duration};

use bezoar_core::Transport;
use tokio::task::JoinSet;

use crate::{RunError, RunErrorKind, Shutdown, Worker, fetch::FetchLoop};

/// Starts and stops any number of workers together.
#[derive(Debug)]
pub struct Host {
    workers: Vec<(Arc<Worker>, Arc<dyn Transport>)>,
    grace: Duration,
}

impl Host {
    /// A host without workers.
    pub fn new() -> Self {
        Self { workers: Vec::new(), grace: Duration::from_secs(30) }
    }

    /// Adds a worker on a queue of `transport`.
    pub fn worker(mut self, transport: Arc<dyn Transport>, worker: Worker) -> Self {
        worker.starts();
        self.workers.push((Arc::new(worker), transport));
        self
    }

    /// How long handlers may take to finish once the host is told to stop. The default is 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Runs until `shutdown` is triggered and every message has been settled.
    ///
    /// Dropping the future stops immediately; leased messages are delivered again when their leases
    /// expire.
    ///
    /// # Errors
    ///
    /// [`RunErrorKind::InvalidSettings`] if a worker has settings that are out of range, or that its transport does not
    /// support, such as a retry delay that is too long. Nothing was started in that case.
    /// [`RunErrorKind::WorkerPanicked`] if a fetch loop panicked; the others were stopped gracefully.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), RunError> {
        for (worker, transport) in &self.workers {
            worker.check_on(&transport.capabilities())?;
        }
        let shutdown = shutdown.child(); // each host has its own grace period
        let mut running = JoinSet::new();
        for (worker, transport) in self.workers {
            let started = worker.clock.now();
            for _ in 0..worker.fetch_loops.get() {
                let (worker, transport) = (worker.clone(), transport.clone());
                let (shutdown, grace) = (shutdown.clone(), self.grace);
                running.spawn(FetchLoop { worker, transport, shutdown, grace, started }.run());
            }
        }
        let mut outcome = Ok(());
        while let Some(ended) = running.join_next().await {
            if ended.is_err() {
                tracing::error!("a fetch loop panicked; stopping the others");
                shutdown.drain();
                outcome = Err(RunError::new(RunErrorKind::WorkerPanicked));
            }
        }
        outcome
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}
