//! The part of the contract that operators use.

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{DeadLetterAccess, DeadLetterFeed, MessageAccess, QueueName, TransportError};

/// What operators can do with queues.
#[async_trait]
pub trait QueueAdmin: Debug + Send + Sync + 'static {
    /// Creates everything the queue needs that is missing. Calling it again changes nothing.
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError>;

    /// Reports what is wrong with the queue and what to do about it. Changes nothing.
    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError>;

    /// Lists the queues by name.
    async fn queues(&self) -> Result<Vec<QueueName>, TransportError>;

    /// Counts the messages of a queue by state.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError>;

    /// Access to single dead letters; `None` where they can only be taken in order. Present exactly
    /// where [`Capabilities::dead_letter_access`](crate::Capabilities::dead_letter_access) says so.
    fn dead_letter_access(&self) -> Option<&dyn DeadLetterAccess> {
        None
    }

    /// Looks at messages that are not dead letters; `None` where only consumers see them. Present exactly where
    /// [`Capabilities::message_access`](crate::Capabilities::message_access) says so.
    fn message_access(&self) -> Option<&dyn MessageAccess> {
        None
    }

    /// Opens a feed of a queue's dead letters, to move them elsewhere or replay them in order; `None`
    /// where there is no feed. Present exactly where
    /// [`Capabilities::dead_letter_feed`](crate::Capabilities::dead_letter_feed) says so.
    async fn dead_letter_feed(
        &self,
        _queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        Ok(None)
    }
}

/// The messages of a queue by state. A count that the transport does not know is `None`, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Depth {
    /// Messages that could be delivered now.
    pub ready: Option<u64>,
    /// Messages that wait for a delay to pass, or for an earlier message with the same ordering
    /// key.
    pub delayed: Option<u64>,
    /// Messages leased to a worker.
    pub leased: Option<u64>,
    /// All messages that are not dead letters. Only set by a transport that cannot tell how many are in
    /// each state.
    pub total: Option<u64>,
    /// Dead letters.
    pub dead: Option<u64>,
    /// The time at which the oldest ready message became ready.
    pub oldest_ready: Option<Timestamp>,
    /// When the oldest dead letter was dead-lettered.
    pub oldest_dead: Option<Timestamp>,
}

/// A problem that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How serious the problem is.
    pub severity: Severity,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    /// A finding with its problem and remedy.
    pub fn new(severity: Severity, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity, problem: problem.into(), remedy: remedy.into() }
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// The queue works; this is for information.
    Note,
    /// The queue works, but may stop working.
    Warning,
    /// The queue does not work, or loses messages.
    Error,
}

impl Severity {
    /// The name of the severity.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
