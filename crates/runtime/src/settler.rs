//! Settlements travel in batches, so that a handler's slot is free while the last one is stored.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Delivery, ErrorKind, Message, Receipt, Settlement, Subscription, TransportError,
};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use crate::{Event, Shutdown, Worker, company::Company};

/// How many settlements are stored in one go.
const BATCH_LIMIT: usize = 256;
/// The first and the longest pause before what could not be stored is tried again; never longer than a third
/// of a lease, which is renewed each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A delivery, and what is to become of it.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) delivery: Delivery,
    pub(crate) settlement: Settlement,
    pub(crate) company: Company,
}

impl Settled {
    /// Whether the message is not just done with.
    fn goes_on(&self) -> bool {
        !matches!(self.settlement, Settlement::Complete)
    }
}

/// Stores settlements as they come, until the last sender is dropped.
///
/// While the transport cannot store them they are kept and their leases renewed; handlers then wait for
/// room, and no more messages are taken.
#[derive(Debug)]
pub(crate) struct Settler {
    pub(crate) worker: Arc<Worker>,
    pub(crate) subscription: Arc<Box<dyn Subscription>>,
    pub(crate) shutdown: Shutdown,
    /// Whether messages are being stored again, to be tried once more or set aside.
    pub(crate) storing: watch::Sender<bool>,
}

impl Settler {
    pub(crate) async fn run(self, mut inbox: mpsc::Receiver<Settled>) {
        let mut arrived = Vec::with_capacity(BATCH_LIMIT);
        while inbox.recv_many(&mut arrived, BATCH_LIMIT).await > 0 {
            self.storing.send_replace(arrived.iter().any(Settled::goes_on));
            let mut left = std::mem::take(&mut arrived);
            let mut pause = PAUSES.0;
            while let Some((unsettled, error)) = self.store(left).await {
                self.worker.each_observer(|it| it.paused(&self.worker.queue, &error, pause));
                tokio::select! {
                    biased;
                    () = self.shutdown.aborting() => {
                        let tell = |it: &Settled| {
                            self.tell(&it.delivery.message, &it.settlement, &Err(error.again()));
                        };
                        unsettled.iter().for_each(tell);
                        break;
                    }
                    () = sleep(pause) => (),
                }
                pause = (pause * 2).min(PAUSES.1).min(self.worker.subscribe.lease / 3);
                left = self.renew(unsettled).await;
            }
            self.storing.send_replace(false);
        }
    }

    /// Stores a batch; what may be stored later comes back.
    async fn store(&self, batch: Vec<Settled>) -> Option<(Vec<Settled>, TransportError)> {
        let (batch, kept): (Vec<_>, Vec<_>) = batch.into_iter().map(Kept::split).unzip();
        let results = self.subscription.settle(batch).await;
        let mut unsettled = Vec::new();
        let mut trouble = None;
        for (kept, result) in kept.into_iter().zip(results) {
            match result {
                Err(error) if may_pass(&error) => {
                    unsettled.push(kept.again());
                    trouble = Some(error);
                }
                result => self.tell(&kept.message, &kept.settlement, &result),
            }
        }
        trouble.map(|error| (unsettled, error))
    }

    /// Holds on to what is not settled yet. What is lost is lost.
    async fn renew(&self, unsettled: Vec<Settled>) -> Vec<Settled> {
        let mut held = Vec::with_capacity(unsettled.len());
        for mut settled in unsettled {
            let lease = self.worker.subscribe.lease;
            let one = std::slice::from_mut(&mut settled.delivery);
            match self.subscription.extend(one, lease).await.pop() {
                Some(Err(error)) if error.kind == ErrorKind::LeaseLost => {
                    self.tell(&settled.delivery.message, &settled.settlement, &Err(error));
                }
                _ => held.push(settled),
            }
        }
        held
    }

    fn tell(
        &self,
        message: &Message,
        settlement: &Settlement,
        result: &Result<(), TransportError>,
    ) {
        let event = match (result, settlement) {
            (Err(error), _) if error.kind == ErrorKind::LeaseLost => Event::LeaseLost,
            (Err(error), _) => Event::NotSettled(error),
            (Ok(()), Settlement::Complete) => Event::Completed,
            (Ok(()), Settlement::Retry { after, .. }) => Event::Retried { after: *after },
            (Ok(()), Settlement::DeadLetter { reason, .. }) => Event::DeadLettered { reason },
            (Ok(()), Settlement::Uncounted { after, failure }) => {
                Event::NotCounted { failure, after: *after }
            }
            (Ok(()), Settlement::Release { .. }) => Event::Released,
        };
        self.worker.tell(message, &event);
    }
}

fn may_pass(error: &TransportError) -> bool {
    error.is_transient() || error.kind == ErrorKind::Full
}

/// What is left of a settlement that the transport has: enough to settle it again. There is one owner
/// throughout: nobody settles it from here while the transport has it.
struct Kept {
    receipt: Receipt,
    lease_until: Option<Timestamp>,
    redelivered: bool,
    settlement: Settlement,
    message: Arc<Message>,
    company: Company,
}

impl Kept {
    fn split(settled: Settled) -> ((Delivery, Settlement), Self) {
        let Settled { delivery, settlement, company } = settled;
        let kept = Self {
            receipt: delivery.receipt.clone(),
            lease_until: delivery.lease_until,
            redelivered: delivery.redelivered,
            settlement: settlement.clone(),
            message: delivery.message.clone(),
            company,
        };
        ((delivery, settlement), kept)
    }

    fn again(self) -> Settled {
        let Self { receipt, lease_until, redelivered, settlement, message, company } = self;
        let delivery = Delivery { message, receipt, lease_until, redelivered };
        Settled { delivery, settlement, company }
    }
}
