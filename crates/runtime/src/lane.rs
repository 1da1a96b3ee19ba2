//! One open subscription: messages are fetched into free slots, each handled in a task of its own.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{Capabilities, Delivery, Subscription, TransportError};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Shutdown,
    fetch::{FetchLoop, Trouble},
    process::Process,
    settler::{self, Settled},
};

/// How long one look into a queue waits where the transport wakes us.
const LOOK: Duration = Duration::from_secs(20);
/// How long the last settlements may take when stopping.
const LAST_WORDS: Duration = Duration::from_secs(5);

pub(crate) struct Lane {
    process: Process,
    wakes: bool,
    slots: Arc<Semaphore>,
    outbox: mpsc::Sender<Settled>,
    settler: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl Lane {
    pub(crate) fn open(
        of: &FetchLoop,
        capabilities: Capabilities,
        subscription: Box<dyn Subscription>,
        slots: Arc<Semaphore>,
    ) -> Self {
        let subscription = Arc::new(subscription);
        let (outbox, inbox) = mpsc::channel(of.worker.concurrency.get() as usize * 4);
        let settler = settler::settle(of.worker.clone(), subscription.clone(), inbox);
        let process = Process {
            worker: of.worker.clone(),
            subscription,
            leases: capabilities.leases,
            shutdown: of.shutdown.clone(),
        };
        let settler = JoinSet::from_iter([settler]);
        let (wakes, tasks) = (capabilities.wakes, JoinSet::new());
        Self { process, wakes, slots, outbox, settler, tasks }
    }

    /// Fetches and starts handlers, until told to stop or the subscription fails.
    pub(crate) async fn fetch(&mut self, trouble: &mut Trouble<'_>) -> Result<(), TransportError> {
        let shutdown = self.process.shutdown.clone();
        let polling = self.process.worker.polling;
        let mut idle = polling.first;
        loop {
            let deliveries = tokio::select! {
                biased;
                () = shutdown.draining() => return Ok(()),
                received = self.receive() => received?,
            };
            trouble.is_over();
            if deliveries.is_empty() && !self.wakes {
                tokio::select! { biased; () = sleep(idle) => (), () = shutdown.draining() => () }
                idle = (idle * 2).min(polling.most);
                continue;
            }
            idle = polling.first;
            deliveries.into_iter().for_each(|delivery| self.start(delivery));
            while self.tasks.try_join_next().is_some() {}
        }
    }

    /// Waits for a free slot, then for messages, no more than there are free slots.
    async fn receive(&self) -> Result<Vec<Delivery>, TransportError> {
        drop(self.slots.acquire().await);
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
        let free = NonZeroU32::new(free).unwrap_or(NonZeroU32::MIN);
        let free = self.process.worker.gate.admit(free).await.min(free);
        let wait = if self.wakes { LOOK } else { Duration::ZERO };
        self.process.subscription.receive(free, wait).await
    }

    fn start(&mut self, delivery: Delivery) {
        let slot = self.slots.clone().try_acquire_owned();
        let slot = slot.expect("no more is received than there are free slots");
        let (process, outbox) = (self.process.clone(), self.outbox.clone());
        self.tasks.spawn(async move {
            if let Some(settled) = process.run(delivery).await {
                let _ = outbox.send(settled).await; // closed only when stopping at once
            }
            drop(slot);
        });
    }

    /// Waits for the handlers and their settlements. Once we stop they have the grace period; after
    /// that their messages are handed back.
    pub(crate) async fn finish(self, shutdown: Shutdown, grace: Duration) {
        let Self { process, outbox, mut settler, mut tasks, .. } = self;
        drop(outbox);
        let patience = async {
            shutdown.draining().await;
            sleep(grace).await;
        };
        tokio::select! { biased; () = all(&mut tasks) => (), () = patience => shutdown.abort() }
        let _ = timeout(LAST_WORDS, all(&mut tasks)).await;
        tasks.shutdown().await;
        let _ = timeout(LAST_WORDS, all(&mut settler)).await;
        settler.shutdown().await;
        if let Ok(subscription) = Arc::try_unwrap(process.subscription) {
            let _ = timeout(LAST_WORDS, subscription.close()).await;
        }
    }
}

async fn all(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}
