//! The loop that keeps a queue open. An error of the transport pauses the loop and fails no
//! message.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Pauses, Transport, TransportError};
use jiff::Timestamp;
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{Shutdown, Worker, consumer::Consumer};

/// The first and the longest pause after an error of the transport.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(100), LONGEST_PAUSE);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One of a worker's fetch loops.
#[derive(Debug)]
pub(crate) struct FetchLoop {
    pub(crate) worker: Arc<Worker>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) shutdown: Shutdown,
    pub(crate) grace: Duration,
    /// When the worker started to fetch messages.
    pub(crate) started: Timestamp,
}

impl FetchLoop {
    /// Runs until it is told to stop and every message that it fetched is settled.
    pub(crate) async fn run(self) {
        // Shared by successive consumers, so that messages of a failed one still count.
        let slots = Arc::new(Semaphore::new(self.worker.concurrency.get() as usize));
        let mut ending = JoinSet::new();
        let mut backoff = TransportBackoff::new(&self.worker);
        while !self.shutdown.is_draining() {
            let opened = tokio::select! {
                biased;
                () = self.shutdown.draining() => break,
                opened = self.transport.subscribe(&self.worker.queue, self.worker.subscribe_options()) => opened,
            };
            let error = match opened {
                Err(error) => error,
                Ok(subscription) => {
                    let capabilities = &self.transport.capabilities();
                    let mut consumer =
                        Consumer::open(&self, capabilities, subscription, slots.clone());
                    let fetched = consumer.fetch(&mut backoff).await;
                    ending.spawn(consumer.finish(self.shutdown.clone(), self.grace));
                    let Err(error) = fetched else { break };
                    error
                }
            };
            while ending.try_join_next().is_some() {}
            let pause = backoff.failed(&error);
            tokio::select! { biased; () = sleep(pause) => (), () = self.shutdown.draining() => () }
        }
        while ending.join_next().await.is_some() {}
    }
}

/// Whether the transport is failing, and how long the next pause is.
#[derive(Debug)]
pub(crate) struct TransportBackoff<'a> {
    worker: &'a Worker,
    paused: bool,
    pauses: Pauses,
}

impl<'a> TransportBackoff<'a> {
    fn new(worker: &'a Worker) -> Self {
        Self { worker, paused: false, pauses: PAUSES }
    }

    /// Reports the error; returns how long to wait.
    fn failed(&mut self, error: &TransportError) -> Duration {
        let asked = error.kind.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
        let pause = self.pauses.lengthen().max(asked);
        self.paused = true;
        self.worker.each_observer(|it| it.paused(&self.worker.queue, error, pause));
        pause
    }

    /// Reports that the transport works again, if it had failed.
    pub(crate) fn recovered(&mut self) {
        self.pauses.reset();
        if std::mem::take(&mut self.paused) {
            self.worker.each_observer(|it| it.resumed(&self.worker.queue));
        }
    }
}
