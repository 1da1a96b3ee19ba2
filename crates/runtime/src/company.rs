//! Who may run beside whom.
//!
//! A message that was handed out before without an outcome is under suspicion: it may have taken its process
//! along, and may do so again. It is run alone, with nothing else in hand, so that its neighbours are not
//! blamed for what it does.

use std::sync::Arc;

use bezoar_core::Delivery;
use tokio::sync::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore,
};

/// Shared by all fetch loops of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Isolation {
    /// Read by each message in hand, until its outcome is stored; written by one that must be alone.
    lock: Arc<RwLock<()>>,
    /// One suspect at a time is in hand.
    suspect: Arc<Semaphore>,
}

/// Held with a message until its outcome is stored.
#[derive(Debug)]
pub(crate) enum Company {
    /// Others may be in hand.
    Others { _held: OwnedRwLockReadGuard<()> },
    /// This one waits for the others to end, and then runs alone.
    Alone { _suspect: OwnedSemaphorePermit, held: Option<OwnedRwLockWriteGuard<()>> },
    /// It cannot be in hand at present and is handed back. Who must be alone waits for that too.
    Leaving { _held: Option<OwnedRwLockReadGuard<()>> },
}

impl Default for Isolation {
    fn default() -> Self {
        Self { lock: Arc::default(), suspect: Arc::new(Semaphore::new(1)) }
    }
}

impl Isolation {
    /// Whether this message may have taken a process along.
    pub(crate) fn suspects(delivery: &Delivery) -> bool {
        delivery.message.ledger.without_outcome() > 1
    }

    /// Waits while a message must be alone.
    pub(crate) async fn over(&self) {
        drop(self.lock.read().await);
    }

    /// With others, unless somebody must be alone.
    pub(crate) fn with_others(&self) -> Company {
        match self.lock.clone().try_read_owned() {
            Ok(held) => Company::Others { _held: held },
            Err(_) => Company::Leaving { _held: None },
        }
    }

    /// Alone, unless another waits to be.
    pub(crate) fn alone(&self) -> Company {
        match self.suspect.clone().try_acquire_owned() {
            Ok(suspect) => Company::Alone { _suspect: suspect, held: None },
            Err(_) => self.leaving(),
        }
    }

    /// About to be handed back.
    pub(crate) fn leaving(&self) -> Company {
        Company::Leaving { _held: self.lock.clone().try_read_owned().ok() }
    }

    /// Waits until the message may run in this company.
    pub(crate) async fn join(&self, company: &mut Company) {
        if let Company::Alone { held, .. } = company {
            *held = Some(self.lock.clone().write_owned().await);
        }
    }
}
