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
    pub async fn run(self, shutdown: Shutdown) {
        let mut running = JoinSet::new();
        for (worker, transport) in self.loops {
            let (shutdown, grace) = (shutdown.clone(), self.grace);
            running.spawn(FetchLoop { worker, transport, shutdown, grace }.run());
        }
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a fetch loop ended by a defect; the others are stopped");
                shutdown.drain();
            }
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}
