//! Stores outcomes in batches, so that a handler's slot is free while its outcome is stored.
//!
//! Several batches may be in flight, and those that complete messages do not wait for those of failed messages.
//! An outcome that could not be stored is kept and tried again after a pause, while the lease keeper renews its
//! lease. If somebody must repair the reason, no more messages are fetched until then: broken topology or a
//! revoked permission pauses a consumer, and dead-letters no message.

mod backlog;

use std::{panic::AssertUnwindSafe, sync::Arc};

use bezoar_core::{Decision, Delivery, ErrorKind, Settlement, TransportError};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{Instant, sleep_until},
};

use self::backlog::{Backlog, SORTS};
use crate::{
    Event, Shutdown, Worker,
    lease_keeper::{Held, LeaseKeeper, Taken},
    quarantine::HandedBack,
};

/// The maximum number of settlements in one call.
const BATCH_LIMIT: usize = 256;

/// A delivery and its settlement.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) held: Held,
    pub(crate) settlement: Settlement,
    /// The decision of the retry strategy, if it was called. Boxed: most messages have none, and this value is moved often.
    decision: Option<Box<Decision>>,
    kept: Kept,
    _until_stored: Option<UntilStored>,
}

/// What is dropped when the settlement is stored.
#[derive(Debug)]
pub(crate) enum UntilStored {
    /// The slot of the quarantine: if the process dies before, the message is still a suspect.
    Quarantine { _slot: OwnedSemaphorePermit },
    /// The turn of the suspect that waits for this one to be released.
    HandedBack { _turn: HandedBack },
}

/// Whether storing a settlement has failed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Storing was not tried yet.
    New,
    /// Storing failed for a temporary reason.
    Failed,
    /// Storing was refused for a reason that somebody must repair.
    Refused,
}

impl Settled {
    pub(crate) fn new(held: Held, settlement: Settlement) -> Self {
        Self { held, settlement, decision: None, kept: Kept::New, _until_stored: None }
    }

    /// Adds the decision behind the settlement.
    pub(crate) fn decided(self, decision: Option<Box<Decision>>) -> Self {
        Self { decision, ..self }
    }

    /// Adds what is dropped when the settlement is stored.
    pub(crate) fn holding(self, until_stored: Option<UntilStored>) -> Self {
        Self { _until_stored: until_stored, ..self }
    }
}

/// The state of storing outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Storing {
    /// Outcomes of failed messages are being stored.
    pub(crate) failures: bool,
    /// Outcomes are refused for a reason that somebody must repair.
    pub(crate) refused: bool,
}

/// Stores settlements as they come, until the last sender is dropped.
#[derive(Debug)]
pub(crate) struct Settler {
    worker: Arc<Worker>,
    keeper: Arc<LeaseKeeper>,
    shutdown: Shutdown,
    storing: watch::Sender<Storing>,
}

type Done = Result<(), TransportError>;

/// The result of a batch.
struct Stored {
    sort: usize,
    parts: Vec<(Settled, Delivery, Done)>,
}

impl Settler {
    pub(crate) fn new(worker: Arc<Worker>, keeper: Arc<LeaseKeeper>, shutdown: Shutdown) -> Self {
        Self { worker, keeper, shutdown, storing: watch::Sender::default() }
    }

    pub(crate) fn storing(&self) -> watch::Receiver<Storing> {
        self.storing.subscribe()
    }

    pub(crate) async fn run(self, mut inbox: mpsc::Receiver<Settled>) {
        let limit = self.worker.concurrency.get() as usize * 4;
        let mut backlog = Backlog::default();
        let mut in_flight = FuturesUnordered::new();
        let mut arrived = Vec::with_capacity(BATCH_LIMIT);
        let mut open = true;
        while open || !backlog.is_empty() {
            let renewed = self.keeper.changed();
            let renewing = self.start_batches(&mut backlog, &in_flight);
            self.show(&backlog);
            let wake = backlog.next_wake(Instant::now());
            let room = limit.saturating_sub(backlog.count).min(BATCH_LIMIT);
            tokio::select! {
                biased;
                Some(stored) = in_flight.next() => self.stored(&mut backlog, stored),
                count = inbox.recv_many(&mut arrived, room), if open && room > 0 => {
                    open = count > 0;
                    arrived.drain(..).for_each(|settled| backlog.add(settled));
                }
                () = self.shutdown.aborting(), if backlog.has_later() => self.abandon(&mut backlog),
                () = renewed, if renewing => (),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    backlog.retry(Instant::now());
                }
            }
        }
    }

    /// Starts as many batches as allowed; returns whether some deliveries wait for a renewal to end.
    fn start_batches<'a>(
        &'a self,
        backlog: &mut Backlog,
        in_flight: &FuturesUnordered<BoxFuture<'a, Stored>>,
    ) -> bool {
        let mut renewing = false;
        for sort in 0..SORTS {
            while let Some(next) = backlog.next_batch(sort, Instant::now()) {
                let (batch, left) = self.take(backlog, next);
                let blocked = !left.is_empty();
                renewing |= blocked;
                backlog.put_first(sort, left);
                if !batch.is_empty() {
                    backlog.started(sort, Instant::now());
                    in_flight.push(self.store(sort, batch));
                } else if blocked {
                    break;
                }
            }
        }
        renewing
    }

    /// Takes deliveries from the lease keeper; leaves those that are being renewed.
    fn take(
        &self,
        backlog: &mut Backlog,
        next: Vec<Settled>,
    ) -> (Vec<(Settled, Delivery)>, Vec<Settled>) {
        let (mut batch, mut left) = (Vec::with_capacity(next.len()), Vec::new());
        for mut settled in next {
            match settled.held.take() {
                Taken::Here(delivery) => batch.push((settled, delivery)),
                Taken::Renewing => left.push(settled),
                Taken::Lost => {
                    self.worker.tell(&settled.held.message, &Event::LeaseLost);
                    backlog.remove(&settled);
                }
            }
        }
        (batch, left)
    }

    fn store(&self, sort: usize, batch: Vec<(Settled, Delivery)>) -> BoxFuture<'_, Stored> {
        // Enough of each is kept to settle it again. There is always one owner: nothing here settles it while
        // the transport has it.
        let (mut kept, mut given) =
            (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (settled, delivery) in batch {
            let copy = delivery.copy();
            given.push((delivery, settled.settlement.clone()));
            kept.push((settled, copy));
        }
        Box::pin(async move {
            let storing = AssertUnwindSafe(self.keeper.subscription().settle(given));
            let results = storing.catch_unwind().await.unwrap_or_default();
            let results = results.into_iter().chain(std::iter::repeat_with(|| Err(no_result())));
            let parts = kept.into_iter().zip(results);
            let parts = parts.map(|((settled, delivery), result)| (settled, delivery, result));
            Stored { sort, parts: parts.collect() }
        })
    }

    /// Reports final outcomes, and keeps settlements that can be stored later.
    fn stored(&self, backlog: &mut Backlog, Stored { sort, parts }: Stored) {
        backlog.ended(sort);
        let (mut kept, mut trouble) = (Vec::new(), None);
        for (mut settled, delivery, result) in parts {
            match result {
                Err(error) if is_kept(&error) => {
                    settled.held.put_back(delivery);
                    kept.push(settled);
                    trouble = Some(error);
                }
                result => {
                    self.tell(&settled, &result);
                    backlog.remove(&settled);
                }
            }
        }
        if let Some(error) = trouble {
            let pause = backlog.try_later(kept, error.again(), Instant::now());
            self.worker.each_observer(|it| it.paused(&self.worker.queue, &error, pause));
        } else if backlog.recovered() {
            self.worker.each_observer(|it| it.resumed(&self.worker.queue));
        }
    }

    /// Drops settlements that wait for another try. Their messages will be delivered again.
    fn abandon(&self, backlog: &mut Backlog) {
        for (settled, error) in backlog.take_later() {
            self.tell(&settled, &Err(error));
        }
    }

    fn show(&self, backlog: &Backlog) {
        let storing = Storing { failures: backlog.stores_failures(), refused: backlog.refused > 0 };
        self.storing.send_if_modified(|shown| std::mem::replace(shown, storing) != storing);
    }

    fn tell(&self, settled: &Settled, result: &Done) {
        let decision = settled.decision.as_deref();
        let event = match (result, &settled.settlement) {
            (Err(error), _) if error.kind == ErrorKind::LeaseLost => Event::LeaseLost,
            (Err(error), _) => Event::NotSettled(error),
            (Ok(()), Settlement::Complete) => Event::Completed,
            (Ok(()), Settlement::Retry { after, tries }) => {
                Event::Retried { after: *after, last: tries.last(), decision }
            }
            (Ok(()), Settlement::DeadLetter { reason, tries }) => {
                Event::DeadLettered { reason, last: tries.last(), decision }
            }
            (Ok(()), Settlement::Uncounted { after, failure }) => {
                Event::NotCounted { failure, after: *after }
            }
            (Ok(()), _) => Event::Released,
        };
        self.worker.tell(&settled.held.message, &event);
    }
}

fn no_result() -> TransportError {
    TransportError::new(ErrorKind::OutcomeUnknown, "transport", "settle")
        .with_source("it returned fewer results than there were settlements; please report it")
}

/// Whether a settlement can be stored later. For the others the lease is lost, the outcome is unknown, or the
/// error concerns this message only.
fn is_kept(error: &TransportError) -> bool {
    !matches!(
        error.kind,
        ErrorKind::LeaseLost
            | ErrorKind::OutcomeUnknown
            | ErrorKind::TooLarge { .. }
            | ErrorKind::Invalid(_)
            | ErrorKind::Unsupported(_)
    )
}

fn passes_by_itself(error: &TransportError) -> bool {
    error.is_transient() || error.kind == ErrorKind::Full
}
