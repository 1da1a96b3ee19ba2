//! Settlements travel in batches, so that a handler's slot is free while the last one is stored.

use std::sync::Arc;

use bezoar_core::{Delivery, ErrorKind, Message, Settlement, Subscription, TransportError};
use tokio::sync::mpsc;

use crate::{Event, Worker};

/// How many settlements are stored in one go.
const BATCH_LIMIT: usize = 256;

/// A delivery, what is to become of it, and its message for those who are told.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) delivery: Delivery,
    pub(crate) settlement: Settlement,
    pub(crate) message: Arc<Message>,
}

/// Stores settlements as they come, until the last sender is dropped.
pub(crate) async fn settle(
    worker: Arc<Worker>,
    subscription: Arc<Box<dyn Subscription>>,
    mut inbox: mpsc::Receiver<Settled>,
) {
    let mut arrived = Vec::with_capacity(BATCH_LIMIT);
    while inbox.recv_many(&mut arrived, BATCH_LIMIT).await > 0 {
        let split = |settled: Settled| {
            let told = (settled.message, settled.settlement.clone());
            ((settled.delivery, settled.settlement), told)
        };
        let (batch, told): (Vec<_>, Vec<_>) = arrived.drain(..).map(split).unzip();
        let results = subscription.settle(batch).await;
        for ((message, settlement), result) in told.iter().zip(&results) {
            worker.tell(message, &event(settlement, result));
        }
    }
}

fn event<'a>(settlement: &'a Settlement, result: &'a Result<(), TransportError>) -> Event<'a> {
    match (result, settlement) {
        (Err(error), _) if error.kind == ErrorKind::LeaseLost => Event::LeaseLost,
        (Err(error), _) => Event::NotSettled(error),
        (Ok(()), Settlement::Complete) => Event::Completed,
        (Ok(()), Settlement::Retry { after, .. }) => Event::Retried { after: *after },
        (Ok(()), Settlement::DeadLetter { reason, .. }) => Event::DeadLettered { reason },
        (Ok(()), Settlement::Release { .. }) => Event::Released,
    }
}
