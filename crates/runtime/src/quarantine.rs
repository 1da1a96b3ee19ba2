//! One slot for messages that may crash their process.
//!
//! A message that was delivered twice before without an outcome may have crashed its process, and may do so
//! again. Such suspects run one at a time, in a slot of their own, while everything else continues: a crash
//! then speaks against one suspect. Those that find the slot taken are handed back, and the one that has it
//! starts only once that is stored: otherwise each crash would count against all of them.

use std::{sync::Arc, time::Duration};

use bezoar_core::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How long a suspect that finds the slot taken stays away.
pub(crate) const COME_BACK: Duration = Duration::from_secs(2);

/// The slot; shared by all fetch loops of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Quarantine(Arc<Semaphore>);

impl Default for Quarantine {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Quarantine {
    /// Whether this message, which is held, may have crashed its process.
    pub(crate) fn suspects(message: &Message) -> bool {
        message.ledger.without_outcome() > 2
    }

    /// The slot, if it is free.
    pub(crate) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

/// Held by each suspect that is handed back, until that is stored.
#[derive(Debug, Clone)]
pub(crate) struct HandedBack {
    _until_stored: mpsc::Sender<()>,
}

/// Waits until all suspects that were handed back are stored.
#[derive(Debug)]
pub(crate) struct Turn(mpsc::Receiver<()>);

impl Turn {
    pub(crate) fn new() -> (HandedBack, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (HandedBack { _until_stored: sender }, Self(receiver))
    }

    pub(crate) async fn comes(mut self) {
        let _ = self.0.recv().await; // nobody sends: it ends when the last sender is gone
    }
}
