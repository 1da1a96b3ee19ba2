//! One open subscription: messages are fetched into free slots, each handled in a task of its own.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{Capabilities, Delivery, Leases, Subscription, TransportError};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    Shutdown,
    company::{Company, Isolation},
    fetch::{FetchLoop, Trouble},
    process::Process,
    settler::{Settled, Settler},
};

/// How long one look into a queue waits where the transport wakes us.
const LOOK: Duration = Duration::from_secs(20);
/// How long the last settlements may take when stopping at once.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long messages gather at most.
const GATHER: Duration = Duration::from_millis(2);

pub(crate) struct Lane {
    process: Process,
    wakes: bool,
    slots: Arc<Semaphore>,
    outbox: mpsc::Sender<Settled>,
    settler: JoinSet<()>,
    tasks: JoinSet<()>,
    /// The last batch held a suspect: one message at a time, until one comes that is none.
    careful: bool,
    /// Whether messages are being stored again.
    storing: watch::Receiver<bool>,
}

impl Lane {
    pub(crate) fn open(
        of: &FetchLoop,
        capabilities: Capabilities,
        subscription: Box<dyn Subscription>,
        slots: Arc<Semaphore>,
    ) -> Self {
        let (subscription, shutdown) = (Arc::new(subscription), of.shutdown.clone());
        let (outbox, inbox) = mpsc::channel(of.worker.concurrency.get() as usize * 4);
        let settler = Settler {
            worker: of.worker.clone(),
            subscription: subscription.clone(),
            shutdown: shutdown.clone(),
            storing: watch::Sender::new(false),
        };
        let storing = settler.storing.subscribe();
        let (worker, leases) = (of.worker.clone(), capabilities.leases);
        let started = of.started;
        let process = Process { worker, subscription, leases, shutdown, started };
        let settler = JoinSet::from_iter([settler.run(inbox)]);
        let (wakes, tasks) = (capabilities.wakes, JoinSet::new());
        Self { process, wakes, slots, outbox, settler, tasks, careful: false, storing }
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
            self.start_all(deliveries);
            self.gather().await;
            while let Some(ended) = self.tasks.try_join_next() {
                report(ended);
            }
        }
    }

    /// Waits for a free slot, for leave to take messages, and then for messages, no more than there are
    /// free slots.
    async fn receive(&self) -> Result<Vec<Delivery>, TransportError> {
        let worker = &self.process.worker;
        worker.isolation.over().await;
        drop(self.slots.acquire().await);
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
        let free = NonZeroU32::new(free).unwrap_or(NonZeroU32::MIN);
        let free = worker.gate.admit(free).await.min(free);
        let free = if self.careful { NonZeroU32::MIN } else { free };
        let wait = if self.wakes { LOOK } else { Duration::ZERO };
        self.process.subscription.receive(free, wait).await
    }

    /// Where messages are sent ahead to us one by one, they gather while others that failed are being
    /// stored: who is woken for each takes longer over all of them.
    async fn gather(&mut self) {
        if self.process.leases == Leases::HeldByConnection {
            let _ = timeout(GATHER, self.storing.wait_for(|storing| !storing)).await;
        }
    }

    /// Starts what was received; see [`Isolation`] for who runs with whom. What came while the gate was
    /// closed, or beside a suspect, is handed back.
    fn start_all(&mut self, deliveries: Vec<Delivery>) {
        let isolation = self.process.worker.isolation.clone();
        let (suspects, others): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(Isolation::suspects);
        if suspects.is_empty() && others.is_empty() {
            return;
        }
        self.careful = !suspects.is_empty();
        let open = self.process.worker.gate.is_open();
        for delivery in others {
            let company = if open { isolation.with_others() } else { isolation.leaving() };
            self.start(delivery, company);
        }
        let mut suspects = suspects.into_iter();
        let first = suspects.next();
        suspects.for_each(|delivery| self.start(delivery, isolation.leaving()));
        if let Some(delivery) = first {
            let company = if open { isolation.alone() } else { isolation.leaving() };
            self.start(delivery, company);
        }
    }

    fn start(&mut self, delivery: Delivery, company: Company) {
        let slot = self.slots.clone().try_acquire_owned();
        let slot = slot.expect("no more is received than there are free slots");
        let (process, outbox) = (self.process.clone(), self.outbox.clone());
        // On the heap, because a future is moved several times on its way into a task and out of it.
        self.tasks.spawn(Box::pin(async move {
            if let Some(settled) = process.run(delivery, company).await {
                let _ = outbox.send(settled).await; // closed only when stopping at once
            }
            drop(slot);
        }));
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
        let in_time = tokio::select! {
            biased;
            () = all(&mut tasks, &mut settler) => true,
            () = patience => false,
        };
        if !in_time {
            shutdown.abort();
            let _ = timeout(LAST_WORDS, all(&mut tasks, &mut settler)).await;
            tasks.abort_all();
            settler.abort_all();
        }
        if let Ok(subscription) = Arc::try_unwrap(process.subscription) {
            let _ = timeout(LAST_WORDS, subscription.close()).await;
        }
    }
}

/// Handlers first: the settler ends when the last of them is done.
async fn all(tasks: &mut JoinSet<()>, settler: &mut JoinSet<()>) {
    for set in [tasks, settler] {
        while let Some(ended) = set.join_next().await {
            report(ended);
        }
    }
}

/// What a panic says may hold anything, so it is not repeated.
fn report(ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("a worker's task ended by a defect; its message will be delivered again");
    }
}
