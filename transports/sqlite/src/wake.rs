//! Who waits for a queue hears of new messages at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bezoar_core::QueueName;
use tokio::sync::Notify;

/// One bell per queue. Within this process only; others are noticed by looking.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bells(Arc<Mutex<HashMap<QueueName, Arc<Notify>>>>);

impl Bells {
    /// The bell of `queue`.
    pub(crate) fn of(&self, queue: &QueueName) -> Arc<Notify> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(queue.clone()).or_default().clone()
    }

    /// Wakes all who wait for `queue`.
    pub(crate) fn ring(&self, queue: &QueueName) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(queue) {
            bell.notify_waiters();
        }
    }
}
