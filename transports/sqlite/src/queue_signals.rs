//! Wakes receivers as soon as a message of their queue is ready.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bezoar_core::QueueName;
use tokio::sync::Notify;

/// One signal per queue, within this process only. Messages from other processes are found by
/// polling.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueSignals(Arc<Mutex<HashMap<QueueName, Arc<Notify>>>>);

impl QueueSignals {
    /// The signal of `queue`.
    pub(crate) fn of(&self, queue: &QueueName) -> Arc<Notify> {
        let mut signals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signals.entry(queue.clone()).or_default().clone()
    }

    /// Wakes every receiver that waits for `queue`.
    pub(crate) fn notify(&self, queue: &QueueName) {
        let signals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = signals.get(queue) {
            signal.notify_waiters();
        }
    }
}
