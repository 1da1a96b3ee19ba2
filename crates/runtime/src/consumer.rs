//! The loop over one open subscription: messages are fetched into free slots, and handled by runners.

use std::{num::NonZeroU32, pin::pin, sync::Arc, time::Duration};

use bezoar_core::{
    Capabilities, Delivery, Leases, Pauses, Settlement, Subscription, TransportError,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{sleep, timeout},
};

use crate::{
    Shutdown,
    fetch::{FetchLoop, TransportBackoff},
    lease_keeper::{Held, LeaseKeeper},
    process::Process,
    quarantine::{HandedBack, Quarantine, Turn},
    runners::Runners,
    settler::{Settled, Settler, Storing, UntilStored},
    tasks::Tasks,
};

/// The maximum wait of one receive, where the transport or its server can wait.
const LOOK: Duration = Duration::from_secs(20);
/// How long the last settlements may take during an immediate stop.
const FINAL_SETTLEMENTS: Duration = Duration::from_secs(5);
/// The maximum time for which messages are gathered.
const GATHER: Duration = Duration::from_millis(2);

pub(crate) struct Consumer {
    process: Arc<Process>,
    keeper: Arc<LeaseKeeper>,
    leases: Leases,
    /// How long one receive waits.
    wait: Duration,
    /// Whether an empty queue must be polled.
    polls: bool,
    slots: Arc<Semaphore>,
    outbox: mpsc::Sender<Settled>,
    /// Stores outcomes.
    settler: Tasks,
    /// Renews leases.
    renewal: Tasks,
    /// Runners, and messages that are not handled by one.
    tasks: Tasks,
    runners: Arc<Runners>,
    storing: watch::Receiver<Storing>,
}

/// What a message must wait for that is not handled by a runner.
enum Slot {
    /// A slot: the transport returned more messages than requested, or it needs none of its own.
    Next,
    Quarantine(OwnedSemaphorePermit, Turn),
}

impl Consumer {
    pub(crate) fn open(
        of: &FetchLoop,
        capabilities: &Capabilities,
        subscription: Box<dyn Subscription>,
        slots: Arc<Semaphore>,
    ) -> Self {
        let (worker, shutdown, leases) = (&of.worker, &of.shutdown, capabilities.leases);
        let keeper = LeaseKeeper::new(subscription, leases, worker.subscribe.lease);
        let (outbox, inbox) = mpsc::channel(worker.concurrency.get() as usize);
        let settler = Settler::new(worker.clone(), keeper.clone(), shutdown.clone());
        let storing = settler.storing();
        // Where the transport does not wake a receive, the server waits; where it does not either,
        // the consumer polls.
        let longest = if capabilities.wakes { Some(LOOK) } else { capabilities.server_wait };
        let wait = longest.unwrap_or_default().min(LOOK);
        let process = Arc::new(Process {
            worker: worker.clone(),
            shutdown: shutdown.clone(),
            started: of.started,
            longest_delay: capabilities.scheduled.unwrap_or_default(),
        });
        let [settling, renewal, tasks] = <[Tasks; 3]>::default();
        settling.spawn(settler.run(inbox));
        renewal.spawn(keeper.clone().renew_leases());
        let runners = Arc::new(Runners::new(process.clone(), outbox.clone(), tasks.spawner()));
        Self {
            process,
            keeper,
            leases,
            wait,
            polls: wait.is_zero(),
            slots,
            outbox,
            settler: settling,
            renewal,
            tasks,
            runners,
            storing,
        }
    }

    /// Fetches and starts handlers, until told to stop or the subscription fails.
    pub(crate) async fn fetch(
        &mut self,
        backoff: &mut TransportBackoff<'_>,
    ) -> Result<(), TransportError> {
        let shutdown = self.process.shutdown.clone();
        let polling = self.process.worker.polling;
        let mut idle = Pauses::new(polling.first, polling.longest);
        loop {
            let deliveries = tokio::select! {
                biased;
                () = shutdown.draining() => return Ok(()),
                received = self.receive_beside_runners() => received?,
            };
            backoff.recovered();
            if deliveries.is_empty() && self.polls {
                tokio::select! { biased; () = sleep(idle.lengthen()) => (), () = shutdown.draining() => () }
                continue;
            }
            idle.reset();
            self.start_all(deliveries);
            self.gather().await;
            self.tasks.forget_ended();
        }
    }

    /// Waits for messages. Meanwhile no message waits for long for a handler that occupies its thread.
    async fn receive_beside_runners(&self) -> Result<Vec<Delivery>, TransportError> {
        let mut receiving = pin!(self.receive());
        loop {
            tokio::select! {
                biased;
                received = &mut receiving => return received,
                () = self.runners.stalled() => self.runners.start_for_each(),
            }
        }
    }

    /// Waits for messages, at most as many as may be taken. A waiting fetch ends when the transport starts to
    /// refuse outcomes.
    async fn receive(&self) -> Result<Vec<Delivery>, TransportError> {
        let mut storing = self.storing.clone();
        loop {
            let _ = storing.wait_for(|storing| !storing.refused).await;
            let free = self.admitted().await;
            tokio::select! {
                biased;
                Ok(_) = storing.wait_for(|storing| storing.refused) => (),
                received = self.keeper.subscription().receive(free, self.wait) => return received,
            }
        }
    }

    /// Waits for a free slot, for room in memory and for the gate; returns how many messages may be taken.
    async fn admitted(&self) -> NonZeroU32 {
        let worker = &self.process.worker;
        drop(self.slots.acquire().await);
        self.keeper.room(worker.subscribe.max_bytes).await;
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
        let free = NonZeroU32::new(free).unwrap_or(NonZeroU32::MIN);
        worker.gate.admit(free).await.min(free)
    }

    /// Where a broker pushes messages one by one, waits for more of them while outcomes of failed messages are
    /// being stored, because waking up for each one would take longer in total.
    async fn gather(&mut self) {
        if self.leases == Leases::HeldByConnection {
            let _ = timeout(GATHER, self.storing.wait_for(|storing| !storing.failures)).await;
        }
    }

    /// Starts the handlers of received messages. A message is released if the gate was closed when it arrived, or
    /// if it is a suspect and the quarantine is occupied.
    fn start_all(&mut self, deliveries: Vec<Delivery>) {
        let held = self.keeper.hold(deliveries);
        if !self.process.worker.gate.is_open() {
            return held.into_iter().for_each(|held| self.hand_back(held, Duration::ZERO, None));
        }
        let (suspects, others): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|held| Quarantine::suspects(&held.message));
        self.start_in_slots(others);
        if !suspects.is_empty() {
            self.start_one(suspects);
        }
    }

    fn start_in_slots(&mut self, messages: Vec<Held>) {
        let mut in_slots = Vec::with_capacity(messages.len());
        for held in messages {
            match self.slots.clone().try_acquire_owned() {
                Ok(slot) => in_slots.push((held, slot)),
                Err(_) => self.start(held, Slot::Next),
            }
        }
        self.runners.handle(in_slots);
    }

    /// Starts the first suspect once the others are released. A suspect that will be dead-lettered needs no
    /// slot.
    fn start_one(&mut self, suspects: Vec<Held>) {
        let quarantine = self.process.worker.quarantine.clone();
        let mut entrance = quarantine.try_enter();
        let (handed_back, turn) = Turn::new();
        let mut chosen = None;
        for held in suspects {
            if self.process.given_up(&held.message).is_some() {
                self.start(held, Slot::Next);
            } else if let Some(permit) = entrance.take() {
                chosen = Some((held, permit));
            } else {
                self.hand_back(held, quarantine.stay_away(), Some(handed_back.clone()));
            }
        }
        drop(handed_back);
        if let Some((held, permit)) = chosen {
            self.start(held, Slot::Quarantine(permit, turn));
        }
    }

    fn hand_back(&mut self, held: Held, after: Duration, turn: Option<HandedBack>) {
        let until_stored = turn.map(|turn| UntilStored::HandedBack { _turn: turn });
        let settled = Settled::new(held, Settlement::Release { after }).holding(until_stored);
        let outbox = self.outbox.clone();
        // It occupies a slot until its settlement is queued, so that no more messages are fetched while
        // nothing can be stored.
        let slot = self.slots.clone().try_acquire_owned().ok();
        self.tasks.spawn(async move {
            let _ = outbox.send(settled).await; // closed only during an immediate stop
            drop(slot);
        });
    }

    /// Starts the handler of a message in a task of its own.
    fn start(&mut self, held: Held, slot: Slot) {
        let (process, outbox, slots) =
            (self.process.clone(), self.outbox.clone(), self.slots.clone());
        self.tasks.spawn(async move {
            let (_permit, until_stored) = match slot {
                Slot::Next => (slots.acquire_owned().await.ok(), None),
                Slot::Quarantine(permit, turn) => {
                    turn.comes().await;
                    (None, Some(UntilStored::Quarantine { _slot: permit }))
                }
            };
            if let Some(settled) = process.run(held).await {
                let _ = outbox.send(settled.holding(until_stored)).await; // closed only during an immediate stop
            }
        });
    }

    /// Waits for the handlers and their settlements. After a stop they have the grace period; then
    /// their messages are released.
    pub(crate) async fn finish(self, shutdown: Shutdown, grace: Duration) {
        let Self { process, keeper, outbox, settler, renewal, tasks, runners, .. } = self;
        runners.close();
        drop((outbox, runners));
        let patience = async {
            shutdown.draining().await;
            sleep(grace).await;
        };
        // The handlers first, because the settler ends after the last of them.
        let all_ended = async || {
            tasks.ended().await;
            settler.ended().await;
        };
        let in_time = tokio::select! {
            biased;
            () = all_ended() => true,
            () = patience => false,
        };
        if !in_time {
            shutdown.abort();
            let _ = timeout(FINAL_SETTLEMENTS, all_ended()).await;
        }
        // Aborted tasks must have ended before the subscription can be closed.
        let aborted = async {
            for tasks in [tasks, settler, renewal] {
                tasks.shutdown().await;
            }
        };
        let _ = timeout(FINAL_SETTLEMENTS, aborted).await;
        drop(process);
        if let Some(keeper) = Arc::into_inner(keeper) {
            let _ = timeout(FINAL_SETTLEMENTS, keeper.into_subscription().close()).await;
        }
    }
}
