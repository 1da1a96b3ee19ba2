//! Settlements travel in batches, so that a handler's slot is free while the last one is stored.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Delivery, ErrorKind, Message, Settlement, Subscription, TransportError};
use tokio::{sync::mpsc, time::sleep};

use crate::{Event, Shutdown, Worker, company::Company};

/// How many settlements are stored in one go.
const BATCH_LIMIT: usize = 256;
/// The first and the longest pause before what could not be stored is tried again; never longer than a third
/// of a lease, which is renewed each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A delivery, what is to become of it, and its message for those who are told.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) delivery: Delivery,
    pub(crate) settlement: Settlement,
    pub(crate) message: Arc<Message>,
    pub(crate) company: Company,
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
}

impl Settler {
    pub(crate) async fn run(self, mut inbox: mpsc::Receiver<Settled>) {
        let mut arrived = Vec::with_capacity(BATCH_LIMIT);
        while inbox.recv_many(&mut arrived, BATCH_LIMIT).await > 0 {
            let mut left = std::mem::take(&mut arrived);
            let mut pause = PAUSES.0;
            while let Some((unsettled, error)) = self.store(left).await {
                self.worker.each_observer(|it| it.paused(&self.worker.queue, &error, pause));
                tokio::select! {
                    biased;
                    () = self.shutdown.aborting() => {
                        unsettled.iter().for_each(|it| self.tell(it, &Err(error.again())));
                        break;
                    }
                    () = sleep(pause) => (),
                }
                pause = (pause * 2).min(PAUSES.1).min(self.worker.subscribe.lease / 3);
                left = self.renew(unsettled).await;
            }
        }
    }

    /// Stores a batch; what may be stored later comes back.
    async fn store(&self, batch: Vec<Settled>) -> Option<(Vec<Settled>, TransportError)> {
        let (batch, kept): (Vec<_>, Vec<_>) = batch.into_iter().map(split).unzip();
        let results = self.subscription.settle(batch).await;
        let mut unsettled = Vec::new();
        let mut trouble = None;
        for (settled, result) in kept.into_iter().zip(results) {
            match result {
                Err(error) if may_pass(&error) => {
                    unsettled.push(settled);
                    trouble = Some(error);
                }
                result => self.tell(&settled, &result),
            }
        }
        trouble.map(|error| (unsettled, error))
    }

    /// Holds on to what is not settled yet. What is lost is lost.
    async fn renew(&self, unsettled: Vec<Settled>) -> Vec<Settled> {
        let mut held = Vec::with_capacity(unsettled.len());
        for mut settled in unsettled {
            let lease = self.worker.subscribe.lease;
            match self.subscription.extend(&mut settled.delivery, lease).await {
                Err(error) if error.kind == ErrorKind::LeaseLost => {
                    self.tell(&settled, &Err(error))
                }
                _ => held.push(settled),
            }
        }
        held
    }

    fn tell(&self, settled: &Settled, result: &Result<(), TransportError>) {
        let event = match (result, &settled.settlement) {
            (Err(error), _) if error.kind == ErrorKind::LeaseLost => Event::LeaseLost,
            (Err(error), _) => Event::NotSettled(error),
            (Ok(()), Settlement::Complete) => Event::Completed,
            (Ok(()), Settlement::Retry { after, .. }) => Event::Retried { after: *after },
            (Ok(()), Settlement::DeadLetter { reason, .. }) => Event::DeadLettered { reason },
            (Ok(()), Settlement::Release { .. }) => Event::Released,
        };
        self.worker.tell(&settled.message, &event);
    }
}

fn may_pass(error: &TransportError) -> bool {
    error.is_transient() || error.kind == ErrorKind::Full
}

/// What the transport consumes, and the same once more should it have to be tried again. There is one
/// owner throughout: nobody settles the copy while the transport has the original.
fn split(settled: Settled) -> ((Delivery, Settlement), Settled) {
    let Settled { delivery, settlement, message, company } = settled;
    let copy = Delivery {
        message: (*message).clone(),
        receipt: delivery.receipt.clone(),
        lease_until: delivery.lease_until,
        redelivered: delivery.redelivered,
    };
    let kept = Settled { delivery: copy, settlement: settlement.clone(), message, company };
    ((delivery, settlement), kept)
}
