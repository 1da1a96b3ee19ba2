//! Owns every delivery from the moment it is received until its outcome is stored.
//!
//! A delivery is in the table while its handler runs and while its outcome waits to be stored. To renew or
//! settle it, a task takes it out of the table and puts it back, so that the two never race and a changed
//! receipt is kept. One task renews all leases that are due, in batches, whether or not a handler still runs.
//!
//! The end of a lease is computed with this process's monotonic clock, from the time when the renewal was
//! requested, because the system time may be changed and a response may be late. A lease that could not be
//! renewed is given up a little early, so that its handler is stopped before another consumer can get the
//! message. Leases that a connection holds are neither renewed nor in the table: the broker takes the message back as
//! soon as the connection is lost.

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar_core::{Delivery, ErrorKind, Leases, Message, Subscription, TransportError};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};

/// How many leases are renewed in one call.
const BATCH_LIMIT: usize = 1_000;

pub(crate) struct LeaseKeeper {
    subscription: Box<dyn Subscription>,
    leases: Leases,
    lease: Duration,
    table: Mutex<Table>,
    /// The bytes of the bodies of all leased messages.
    bytes: AtomicUsize,
    /// Notified when there is a lease to renew after there was none.
    due: Notify,
    /// Notified when deliveries leave the table, or come back from a renewal.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<u64, Entry>,
    last_key: u64,
    /// Whether there is nothing to renew, so that adding a lease must notify.
    idle: bool,
}

impl Table {
    /// Adds a delivery that was received at `now`; returns its key.
    fn enter(&mut self, delivery: Delivery, now: Instant, lease: Duration) -> u64 {
        self.last_key += 1;
        let entry = Entry {
            place: Place::Here(delivery),
            renew_at: now + lease / 3,
            valid_until: now + lease,
            lost: None,
        };
        self.entries.insert(self.last_key, entry);
        self.last_key
    }
}

struct Entry {
    place: Place,
    renew_at: Instant,
    /// The time until which no other consumer can get the message.
    valid_until: Instant,
    /// Notified when the lease is lost; set once a task waits for that.
    lost: Option<Arc<Notify>>,
}

enum Place {
    Here(Delivery),
    Renewing,
    Settling,
}

/// A delivery that this process is responsible for. If dropped before it is settled, its lease is left to expire.
pub(crate) struct Held {
    keeper: Arc<LeaseKeeper>,
    lease: Lease,
    pub(crate) message: Arc<Message>,
    pub(crate) redelivered: bool,
}

/// Where the delivery is.
enum Lease {
    /// In the table, under this key.
    InTable(u64),
    /// Here, unless it is being settled. Its lease is not renewed.
    Here(Option<Delivery>),
}

/// The result of taking a delivery out to settle it.
#[derive(Debug)]
pub(crate) enum Taken {
    Here(Delivery),
    /// It is being renewed; try again when the renewal has ended.
    Renewing,
    /// The lease was lost.
    Lost,
}

/// The result of a renewal.
struct Renewed {
    keys: Vec<u64>,
    deliveries: Vec<Delivery>,
    asked_at: Instant,
    results: Vec<Result<(), TransportError>>,
}

impl LeaseKeeper {
    pub(crate) fn new(
        subscription: Box<dyn Subscription>,
        leases: Leases,
        lease: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            subscription,
            leases,
            lease,
            table: Mutex::default(),
            bytes: AtomicUsize::new(0),
            due: Notify::new(),
            changed: Notify::new(),
        })
    }

    pub(crate) fn subscription(&self) -> &dyn Subscription {
        &*self.subscription
    }

    /// Returns the subscription, to be closed.
    pub(crate) fn into_subscription(self) -> Box<dyn Subscription> {
        self.subscription
    }

    /// Takes responsibility for deliveries that were just received.
    pub(crate) fn hold(self: &Arc<Self>, deliveries: Vec<Delivery>) -> Vec<Held> {
        let bytes = deliveries.iter().map(|delivery| delivery.message.body.len()).sum();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let now = Instant::now();
        let mut table = (self.leases == Leases::Expire).then(|| self.table());
        if let Some(table) = &mut table {
            self.wake(table);
        }
        let hold = |delivery: Delivery| {
            let (message, redelivered) = (delivery.message.clone(), delivery.redelivered);
            let lease = match &mut table {
                Some(table) => Lease::InTable(table.enter(delivery, now, self.lease)),
                None => Lease::Here(Some(delivery)),
            };
            Held { keeper: self.clone(), lease, message, redelivered }
        };
        deliveries.into_iter().map(hold).collect()
    }

    /// Waits until fewer than `limit` bytes of bodies are leased.
    pub(crate) async fn room(&self, limit: usize) {
        while self.bytes.load(Ordering::Relaxed) >= limit {
            let changed = self.changed();
            if self.bytes.load(Ordering::Relaxed) >= limit {
                changed.await;
            }
        }
    }

    /// Waits until deliveries have left the table or come back. Listens from the moment it is
    /// created.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Renews leases as they become due, until dropped. A renewal that hangs does not delay others.
    pub(crate) async fn renew_leases(self: Arc<Self>) {
        if self.leases != Leases::Expire {
            return std::future::pending().await;
        }
        let mut renewing = FuturesUnordered::new();
        loop {
            let next = self.next_due();
            tokio::select! {
                biased;
                Some(renewed) = renewing.next() => self.renewed(renewed),
                () = self.due.notified() => (),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => (),
            }
            self.give_up_overdue();
            while let Some((keys, deliveries)) = self.take_due() {
                renewing.push(self.renew(keys, deliveries));
            }
        }
    }

    async fn renew(&self, keys: Vec<u64>, mut deliveries: Vec<Delivery>) -> Renewed {
        let asked_at = Instant::now();
        let renewing = self.subscription.extend(&mut deliveries, self.lease);
        // Short enough to try once more before the lease is given up.
        let renewing = timeout(self.lease / 4, AssertUnwindSafe(renewing).catch_unwind());
        // Without a response the leases may or may not have been renewed. Either way the deliveries can be settled
        // and renewed again.
        let results = renewing.await.ok().and_then(Result::ok).unwrap_or_default();
        Renewed { keys, deliveries, asked_at, results }
    }

    /// Puts back deliveries whose leases are valid, and gives up the others.
    fn renewed(&self, Renewed { keys, deliveries, asked_at, results }: Renewed) {
        let mut table = self.table();
        let now = Instant::now();
        let mut results = results.into_iter();
        for (key, delivery) in keys.into_iter().zip(deliveries) {
            // Absent if it was given up meanwhile.
            let Some(entry) = table.entries.get_mut(&key) else { continue };
            entry.place = Place::Here(delivery);
            match results.next() {
                Some(Ok(())) => {
                    entry.renew_at = asked_at + self.lease / 3;
                    entry.valid_until = asked_at + self.lease;
                }
                Some(Err(error)) if error.kind == ErrorKind::LeaseLost => {
                    self.lose(&mut table, key);
                }
                // Other errors may pass before the lease expires.
                _ => entry.renew_at = now + self.margin(),
            }
        }
        drop(table);
        self.changed.notify_waiters();
    }

    /// Gives up leases that could not be renewed, before the transport does.
    fn give_up_overdue(&self) {
        let mut table = self.table();
        let end = Instant::now() + self.margin();
        let is_overdue =
            |entry: &Entry| !matches!(entry.place, Place::Settling) && entry.valid_until <= end;
        let overdue = table.entries.iter().filter(|(_, entry)| is_overdue(entry));
        let overdue: Vec<_> = overdue.map(|(key, _)| *key).collect();
        overdue.into_iter().for_each(|key| self.lose(&mut table, key));
    }

    fn lose(&self, table: &mut Table, key: u64) {
        if let Some(lost) = table.entries.remove(&key).and_then(|entry| entry.lost) {
            lost.notify_one();
        }
        self.changed.notify_waiters();
    }

    fn take_due(&self) -> Option<(Vec<u64>, Vec<Delivery>)> {
        let mut table = self.table();
        let now = Instant::now();
        let (mut keys, mut deliveries) = (Vec::new(), Vec::new());
        let due = table.entries.iter_mut().filter(|(_, entry)| entry.renew_at <= now);
        for (key, entry) in due {
            if let Place::Here(_) = entry.place
                && let Place::Here(delivery) = std::mem::replace(&mut entry.place, Place::Renewing)
            {
                keys.push(*key);
                deliveries.push(delivery);
            }
            if keys.len() == BATCH_LIMIT {
                break;
            }
        }
        (!keys.is_empty()).then_some((keys, deliveries))
    }

    /// When the next lease must be renewed or given up.
    fn next_due(&self) -> Option<Instant> {
        let (mut table, margin) = (self.table(), self.margin());
        let due = |entry: &Entry| match entry.place {
            Place::Here(_) => Some(entry.renew_at.min(entry.valid_until - margin)),
            Place::Renewing => Some(entry.valid_until - margin),
            Place::Settling => None,
        };
        let next = table.entries.values().filter_map(due).min();
        table.idle = next.is_none();
        next
    }

    fn wake(&self, table: &mut Table) {
        if std::mem::take(&mut table.idle) {
            self.due.notify_one();
        }
    }

    /// How long before its real end a lease is given up.
    fn margin(&self) -> Duration {
        self.lease / 10
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Takes the delivery out to settle it.
    pub(crate) fn take(&mut self) -> Taken {
        let key = match &mut self.lease {
            Lease::Here(delivery) => return delivery.take().map_or(Taken::Lost, Taken::Here),
            Lease::InTable(key) => key,
        };
        let mut table = self.keeper.table();
        let Some(entry) = table.entries.get_mut(key) else { return Taken::Lost };
        match std::mem::replace(&mut entry.place, Place::Settling) {
            Place::Here(delivery) => Taken::Here(delivery),
            Place::Renewing => {
                entry.place = Place::Renewing;
                Taken::Renewing
            }
            Place::Settling => Taken::Lost,
        }
    }

    /// Puts back a delivery that could not be settled yet.
    pub(crate) fn put_back(&mut self, delivery: Delivery) {
        let key = match &mut self.lease {
            Lease::Here(place) => return *place = Some(delivery),
            Lease::InTable(key) => key,
        };
        let mut table = self.keeper.table();
        if let Some(entry) = table.entries.get_mut(key) {
            entry.place = Place::Here(delivery);
            table.idle |= Instant::now() >= table.entries[key].renew_at;
            self.keeper.wake(&mut table);
        }
    }

    /// Whether the lease was lost while the message waited for a slot.
    pub(crate) fn is_lost(&self) -> bool {
        match &self.lease {
            Lease::InTable(key) => !self.keeper.table().entries.contains_key(key),
            Lease::Here(_) => false,
        }
    }

    /// Waits until the lease is lost.
    pub(crate) async fn lost(&self) {
        let Lease::InTable(key) = &self.lease else { return pending().await };
        let lost = {
            let mut table = self.keeper.table();
            let entry = table.entries.get_mut(key);
            entry.map(|entry| entry.lost.get_or_insert_default().clone())
        };
        if let Some(lost) = lost {
            lost.notified().await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Lease::InTable(key) = &self.lease {
            self.keeper.table().entries.remove(key);
        }
        self.keeper.bytes.fetch_sub(self.message.body.len(), Ordering::Relaxed);
        self.keeper.changed.notify_waiters();
    }
}

impl fmt::Debug for LeaseKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseKeeper")
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("message", &self.message.id).finish_non_exhaustive()
    }
}
