//! Finds the row of a lease.
//!
//! The hot table is clustered by the time at which a message can be delivered, which for a leased message is the end of
//! its lease. A receipt contains that time, but not always the latest: the response to a renewal may be lost, and a
//! clock that is set forward moves all leases. The receipt decides, not the time, so this module remembers where rows
//! were moved for as long as their leases last. An index would find them too, but would cost two more writes per
//! message.

use std::collections::HashMap;

use bezoar_core::{Delivery, Receipt, millis};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

/// How many leases are remembered before those that expired long ago are dropped.
const REMEMBERED: usize = 10_000;
/// How long after its end a lease can be dropped.
const LONG_AGO_MS: i64 = 60 * 60 * 1_000;

/// A lease as the database identifies it.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) queue: i64,
    /// When the lease ends, as far as its holder knows.
    pub(crate) visible_at: i64,
    pub(crate) seq: i64,
    pub(crate) token: i64,
}

impl Lease {
    pub(crate) fn of(queue: i64, delivery: &Delivery) -> Option<Self> {
        let [seq, token, visible_at] = delivery.receipt.numbers()?;
        Some(Self { queue, visible_at, seq, token })
    }
}

/// The receipt of a lease that ends at `visible_at`.
pub(crate) fn receipt(seq: i64, token: i64, visible_at: i64) -> Receipt {
    Receipt::from_numbers([seq, token, visible_at])
}

/// The leases whose rows were moved, with their new places. The latest place is not certain,
/// because the transaction that moved the row may have been rolled back, so the previous one is
/// kept too.
#[derive(Debug)]
pub(crate) struct Moved {
    places: HashMap<(i64, i64), [i64; 2]>,
    /// The number of entries from which expired leases are dropped.
    limit: usize,
    /// Whether the clock was set forward, so that another process may have moved leases of this
    /// one.
    by_others: bool,
}

impl Default for Moved {
    fn default() -> Self {
        Self { places: HashMap::new(), limit: REMEMBERED, by_others: false }
    }
}

impl Moved {
    /// Looks for the row of a lease in each place where it may be.
    pub(crate) fn find<T>(
        &self,
        connection: &Connection,
        lease: &Lease,
        mut look: impl FnMut(i64) -> rusqlite::Result<Option<T>>,
    ) -> rusqlite::Result<Option<T>> {
        if let Some(found) = look(lease.visible_at)? {
            return Ok(Some(found));
        }
        for place in self.places.get(&(lease.seq, lease.token)).into_iter().flatten().rev() {
            if let Some(found) = look(*place)? {
                return Ok(Some(found));
            }
        }
        match self.search(connection, lease)? {
            Some(place) => look(place),
            None => Ok(None),
        }
    }

    /// Searches all rows that are due after the known end of the lease. This is expensive, and only
    /// needed after a step of the clock.
    fn search(&self, connection: &Connection, lease: &Lease) -> rusqlite::Result<Option<i64>> {
        if !self.by_others {
            return Ok(None);
        }
        connection
            .prepare_cached(
                "SELECT visible_at FROM bezoar_waiting
                 WHERE queue = ?1 AND visible_at > ?2 AND seq = ?3 AND token = ?4",
            )?
            .query_row([lease.queue, lease.visible_at, lease.seq, lease.token], |row| row.get(0))
            .optional()
    }

    /// Records that other processes may have moved leases too.
    pub(crate) fn clock_stepped(&mut self) {
        self.by_others = true;
    }

    /// Remembers a move, and returns the new end of the lease.
    pub(crate) fn remember(&mut self, lease: &Lease, from: i64, to: i64) -> Timestamp {
        if self.places.len() >= self.limit {
            self.places.retain(|_, [_, latest]| *latest > to - LONG_AGO_MS);
            self.limit = REMEMBERED.max(2 * self.places.len());
        }
        self.places.insert((lease.seq, lease.token), [from, to]);
        millis(to)
    }

    /// Forgets a lease that has ended.
    pub(crate) fn forget(&mut self, lease: &Lease) {
        if !self.places.is_empty() {
            self.places.remove(&(lease.seq, lease.token));
        }
    }
}
