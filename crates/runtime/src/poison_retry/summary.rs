//! What a run did, and why one could not proceed.

use std::{error::Error, fmt};

use bezoar_core::{QueueName, TransportError};

/// How many messages a run took, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoisonRun {
    /// Taken from the poison queue: the sum of the others.
    pub taken: u64,
    /// Delivered, and deleted from the poison queue.
    pub delivered: u64,
    /// Not delivered, and updated for a later retry.
    pub retried: u64,
    /// Stored as a dead letter, and deleted from the poison queue.
    pub dead_lettered: u64,
    /// Left as they were, because they could not be read or their outcome could not be stored. They become visible
    /// again by themselves.
    pub left: u64,
}

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Delivered,
    Retried,
    DeadLettered,
    Left,
}

impl PoisonRun {
    pub(super) fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.delivered += other.delivered;
        self.retried += other.retried;
        self.dead_lettered += other.dead_lettered;
        self.left += other.left;
    }

    pub(super) fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Delivered => &mut self.delivered,
            Fate::Retried => &mut self.retried,
            Fate::DeadLettered => &mut self.dead_lettered,
            Fate::Left => &mut self.left,
        } += 1;
    }
}

/// A run could not proceed: the queue could not be created, or no message could be taken from it.
#[derive(Debug)]
#[non_exhaustive]
pub struct PoisonRunError {
    /// The queue.
    pub queue: QueueName,
    /// What the run did before.
    pub so_far: PoisonRun,
    /// The error of the queue.
    pub source: TransportError,
}

impl fmt::Display for PoisonRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot take messages from the poison queue {}", self.queue)
    }
}

impl Error for PoisonRunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
