//! One slot for messages that may crash their process.
//!
//! A message that was delivered twice before without an outcome may have crashed its process, and may do so
//! again. Such suspects run one at a time, in a slot of their own, while everything else continues: a crash
//! is then evidence against one suspect only. Suspects that find the slot occupied are released, and the
//! one in the slot starts only once those releases are stored: otherwise each crash would count against all
//! of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar_core::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// A suspect that finds the slot occupied is delivered again this much later than the one before it, up
/// to a maximum.
const STAGGER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// The slot; shared by all fetch loops of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Quarantine {
    slot: Arc<Semaphore>,
    /// How many suspects were released since one last got the slot.
    waiting: Arc<AtomicU32>,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self { slot: Arc::new(Semaphore::new(1)), waiting: Arc::default() }
    }
}

impl Quarantine {
    /// Whether this message may have crashed its process.
    pub(crate) fn suspects(message: &Message) -> bool {
        message.ledger.without_outcome() > 2
    }

    /// Takes the slot if it is free.
    pub(crate) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.slot.clone().try_acquire_owned().ok()?;
        self.waiting.store(0, Ordering::Relaxed);
        Some(permit)
    }

    /// How long a suspect that found the slot occupied is released. They are delivered again one after the other, so
    /// that one arrives soon after the slot is free, and a thousand cost no more writes than a few.
    pub(crate) fn stay_away(&self) -> Duration {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        STAGGER.0.saturating_mul(before.saturating_add(1)).min(STAGGER.1)
    }
}

/// Held by each suspect that is released, until the release is stored.
#[derive(Debug, Clone)]
pub(crate) struct HandedBack {
    _until_stored: mpsc::Sender<()>,
}

/// Waits until the releases of all other suspects are stored.
#[derive(Debug)]
pub(crate) struct Turn(mpsc::Receiver<()>);

impl Turn {
    pub(crate) fn new() -> (HandedBack, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (HandedBack { _until_stored: sender }, Self(receiver))
    }

    pub(crate) async fn comes(mut self) {
        let _ = self.0.recv().await; // nobody sends: this returns when the last sender is dropped
    }
}
