//! Settling and renewing one lease. Every function here holds the lock of the lease, so one runs at a time.

use std::{sync::Arc, time::Duration};

use bezoar_core::{ErrorKind, Ledger, Reason, Settlement, TransportError};

use super::leases::{Held, Lease};
use crate::{
    connection::queue_client::{PopReceipt, Queue, within_limit},
    error::{Fault, FaultKind, error},
    transport::TransportState,
    wire::{blob_reference, poison_record::Poisoned, stored_text},
};

/// The queue that messages are settled in.
#[derive(Debug)]
pub(crate) struct Settler {
    pub(crate) state: Arc<TransportState>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) poison: Arc<Queue>,
    /// The length of a lease.
    pub(crate) lease: Duration,
}

impl Settler {
    /// Settles a message whose ledger was `ledger` when it was delivered.
    pub(crate) async fn settle(
        &self,
        lease: &Lease,
        mut ledger: Ledger,
        settlement: &Settlement,
    ) -> Result<(), TransportError> {
        let mut held = lease.held.lock().await;
        settlement.record(&mut ledger);
        let settled = match settlement {
            Settlement::Complete => self.complete(lease, &mut held).await,
            Settlement::DeadLetter { reason, .. } => {
                self.set_aside(lease, &mut held, ledger, reason).await
            }
            Settlement::Retry { after, .. }
            | Settlement::Release { after }
            | Settlement::Uncounted { after, .. } => {
                self.hand_back(lease, &held, &ledger, *after).await
            }
            _ => self.hand_back(lease, &held, &ledger, Duration::ZERO).await,
        };
        end_if(&mut held, settled.is_ok() || is_lost(&settled));
        settled
    }

    /// Renews the lease for `by` from now; returns when it expires, by the steady clock.
    pub(crate) async fn renew(
        &self,
        lease: &Lease,
        by: Duration,
    ) -> Result<Duration, TransportError> {
        let mut held = lease.held.lock().await;
        let renewed = self.renew_held(lease, &mut held, by, "extend").await;
        end_if(&mut held, is_lost(&renewed));
        renewed.map(|()| held.until)
    }

    async fn renew_held(
        &self,
        lease: &Lease,
        held: &mut Held,
        by: Duration,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let until = self.state.options.clock.steady() + by;
        let receipt = latest(held, operation)?;
        let renewed = self.queue.update(&lease.fetched.id, receipt, None, within_limit(by)).await;
        held.pop_receipt = Some(renewed.map_err(|it| it.repeatable(&self.queue.name, operation))?);
        held.until = until;
        Ok(())
    }

    /// Deletes the message, and then its body if that is a blob.
    async fn complete(&self, lease: &Lease, held: &mut Held) -> Result<(), TransportError> {
        self.delete(lease, held).await?;
        let reference = blob_reference::find(&lease.fetched.text);
        if let (Some(bodies), Some(reference)) = (&self.state.service.bodies, reference) {
            bodies.forget(&reference).await;
        }
        Ok(())
    }

    /// Deletes the message. A deletion that was sent before and not answered may have succeeded.
    async fn delete(&self, lease: &Lease, held: &mut Held) -> Result<(), TransportError> {
        let receipt = latest(held, "settle")?;
        match self.queue.delete(&lease.fetched.id, receipt).await {
            Err(Fault { kind: FaultKind::MessageNotFound, .. }) if held.delete_sent => Ok(()),
            Err(fault) => {
                held.delete_sent |= fault.kind == FaultKind::NoAnswer;
                Err(fault.repeatable(&self.queue.name, "settle"))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Makes the message visible again after `after`, with its ledger if that fits.
    async fn hand_back(
        &self,
        lease: &Lease,
        held: &Held,
        ledger: &Ledger,
        after: Duration,
    ) -> Result<(), TransportError> {
        let (receipt, it) = (latest(held, "settle")?, &lease.fetched);
        let text = stored_text::rewritten(&it.text, ledger, it.dequeue_count);
        let after = within_limit(after);
        let updated = self.queue.update(&it.id, receipt, text.as_deref(), after).await;
        updated.map(drop).map_err(|fault| fault.into_error(&self.queue.name, "settle"))
    }

    /// Stores the message in the poison queue, and deletes it only then. If that is interrupted there are two copies
    /// with the same dead-letter id.
    async fn set_aside(
        &self,
        lease: &Lease,
        held: &mut Held,
        ledger: Ledger,
        reason: &Reason,
    ) -> Result<(), TransportError> {
        latest(held, "settle")?;
        // An expired lease may be somebody else's by now, and a copy cannot be taken back.
        if self.state.options.clock.steady() >= held.until {
            self.renew_held(lease, held, self.lease, "settle").await?;
        }
        if !held.is_set_aside {
            let (fetched, queue) = (&lease.fetched, &self.queue.name);
            let at = self.state.options.clock.now();
            if let Some(bodies) = &self.state.service.bodies {
                let kept = bodies.keep(&fetched.text, &self.poison.name).await;
                kept.map_err(|fault| fault.repeatable(queue, "settle"))?;
            }
            let original_text = stored_text::original(&fetched.text);
            let (died_in, retried) = ((queue, fetched.id.as_str()), None);
            let poisoned =
                Poisoned { fetched, died_in, original_text, retried, ledger, reason, at };
            self.put(&poisoned.write(self.state.options.error_texts)).await?;
            held.is_set_aside = true;
        }
        self.delete(lease, held).await
    }

    /// Stores a text in the poison queue, for ever.
    async fn put(&self, text: &str) -> Result<(), TransportError> {
        let put = || self.poison.put(text, Duration::ZERO, None);
        let stored = match put().await {
            Err(Fault { kind: FaultKind::QueueNotFound, .. }) => {
                self.state.ensure_poison_queue(&self.queue.name, "settle").await?;
                put().await
            }
            stored => stored,
        };
        stored.map_err(|fault| fault.repeatable(&self.poison.name, "settle"))
    }
}

fn latest<'a>(held: &'a Held, operation: &'static str) -> Result<&'a PopReceipt, TransportError> {
    held.pop_receipt.as_ref().ok_or_else(|| error(ErrorKind::LeaseLost, operation))
}

fn is_lost<T>(result: &Result<T, TransportError>) -> bool {
    result.as_ref().is_err_and(|failed| failed.kind == ErrorKind::LeaseLost)
}

fn end_if(held: &mut Held, ended: bool) {
    if ended {
        held.pop_receipt = None;
    }
}
