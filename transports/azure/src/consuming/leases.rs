//! The leases of one subscription.
//!
//! Each update of a message changes its pop receipt, and only the latest one counts. So a delivery's receipt is the
//! number of a lease, and the lease knows the pop receipt. Whoever uses it locks the lease until Azure has answered:
//! renewing and settling never race, and the next one finds the new receipt.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar_core::Receipt;

use super::fetcher::Arrived;
use crate::connection::queue_client::{Fetched, PopReceipt};

/// How long an expired lease is remembered. It can still be settled if nobody else took the message.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// So many leases are never too many.
const FEW: usize = 64;

#[derive(Debug)]
pub(crate) struct Lease {
    /// The message as it was fetched. Its pop receipt is the first one, not the latest.
    pub(crate) fetched: Fetched,
    pub(crate) held: tokio::sync::Mutex<Held>,
}

/// What changes about a lease.
#[derive(Debug)]
pub(crate) struct Held {
    /// The latest pop receipt; `None` once the lease is lost or settled.
    pub(crate) pop_receipt: Option<PopReceipt>,
    /// When the lease expires, by the steady clock.
    pub(crate) until: Duration,
    /// A deletion was sent and not answered: if the message is gone, it was that.
    pub(crate) delete_sent: bool,
    /// The message is in the poison queue, and only has to be deleted.
    pub(crate) is_set_aside: bool,
}

impl Lease {
    pub(crate) fn new(arrived: Arrived) -> Self {
        let Arrived { fetched, until, .. } = arrived;
        let pop_receipt = Some(fetched.pop_receipt.clone());
        let held = Held { pop_receipt, until, delete_sent: false, is_set_aside: false };
        Self { fetched, held: held.into() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    last: i64,
    /// How many leases there may be until expired ones are looked for again.
    most: usize,
    open: HashMap<i64, (Duration, Arc<Lease>)>,
}

impl Leases {
    /// Adds a lease, and forgets those that expired long ago. Returns the receipt of its delivery.
    pub(crate) fn open(&self, arrived: Arrived, now: Duration) -> Receipt {
        let mut table = self.lock();
        if table.open.len() >= table.most {
            table.open.retain(|_, (until, _)| *until + REMEMBERED > now);
            table.most = (table.open.len() * 2).max(FEW);
        }
        table.last += 1;
        let (number, until) = (table.last, arrived.until);
        table.open.insert(number, (until, Arc::new(Lease::new(arrived))));
        Receipt::from_numbers([number, 0, 0])
    }

    pub(crate) fn find(&self, receipt: &Receipt) -> Option<Arc<Lease>> {
        let [number, ..] = receipt.numbers()?;
        self.lock().open.get(&number).map(|(_, lease)| lease.clone())
    }

    /// Remembers that a lease was renewed.
    pub(crate) fn renewed(&self, receipt: &Receipt, until: Duration) {
        let number = receipt.numbers().map_or(0, |[number, ..]| number);
        if let Some((remembered, _)) = self.lock().open.get_mut(&number) {
            *remembered = until;
        }
    }

    pub(crate) fn close(&self, receipt: &Receipt) {
        let number = receipt.numbers().map_or(0, |[number, ..]| number);
        self.lock().open.remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, LeaseTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::millis;

    use super::*;

    fn arrived(until: Duration) -> Arrived {
        let (id, pop_receipt, text) = ("a".to_owned(), "CANARY".into(), String::new());
        let fetched = Fetched { id, pop_receipt, text, dequeue_count: 1, inserted_at: millis(0) };
        Arrived { fetched, body: None, until }
    }

    #[test]
    fn debug_shows_no_pop_receipt() {
        let leases = Leases::default();
        leases.open(arrived(Duration::ZERO), Duration::ZERO);
        assert!(!format!("{leases:?}").contains("CANARY"), "{leases:?}");
    }

    #[test]
    fn leases_are_forgotten_some_time_after_they_expired() {
        let (leases, second) = (Leases::default(), Duration::from_secs(1));
        let [lost, renewed] = [(); 2].map(|()| leases.open(arrived(second), Duration::ZERO));
        leases.renewed(&renewed, second * 10);
        for _ in 0..=FEW {
            leases.open(arrived(REMEMBERED), second * 2 + REMEMBERED);
        }
        assert!(leases.find(&lost).is_none());
        assert!(leases.find(&renewed).is_some());
        leases.close(&renewed);
        assert!(leases.find(&renewed).is_none());
        assert!(leases.find(&Receipt::from_text("foreign")).is_none());
    }
}
