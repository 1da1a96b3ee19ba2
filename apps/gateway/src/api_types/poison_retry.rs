//! The poison-queue retry processors.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A poison queue whose messages are delivered again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PoisonRetry {
    /// The poison queue.
    pub queue: String,
    /// The endpoint, without path and query.
    pub to: String,
    /// The queue that takes messages with too many attempts.
    pub dead_letter: String,
    /// How often it runs.
    pub every_seconds: f64,
    /// How many attempts a message has.
    pub max_attempts: u64,
    /// How the last run ended; null before the first one.
    pub last_run: Option<PoisonRun>,
}

/// A run that ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PoisonRun {
    /// When it ended.
    pub ended_at: Timestamp,
    /// Why it could not proceed, if it could not.
    pub problem: Option<String>,
    /// What became of the messages, if it could.
    pub counts: Option<PoisonRunCounts>,
}

/// What became of the messages of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PoisonRunCounts {
    /// How many were taken from the queue.
    pub taken: u64,
    /// How many were delivered.
    pub delivered: u64,
    /// How many failed and will be tried again.
    pub retried: u64,
    /// How many failed for the last time.
    pub dead_lettered: u64,
    /// How many were left in the queue.
    pub left: u64,
}

/// The outcome of a run on demand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PoisonRunReport {
    /// The poison queue.
    pub queue: String,
    /// What became of the messages.
    #[serde(flatten)]
    pub counts: PoisonRunCounts,
}

impl From<&bezoar::PoisonRun> for PoisonRunCounts {
    fn from(run: &bezoar::PoisonRun) -> Self {
        Self {
            taken: run.taken,
            delivered: run.delivered,
            retried: run.retried,
            dead_lettered: run.dead_lettered,
            left: run.left,
        }
    }
}
