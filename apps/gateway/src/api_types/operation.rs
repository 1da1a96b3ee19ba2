//! Replays and discards.

use std::time::Duration;

use bezoar::catalogue::{self, OperationId, ReplayIds};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeadLetterFilter, names::named, reading};

/// A replay or discard, and its progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Operation {
    /// Its id.
    #[schema(example = "op_209aaw0b")]
    pub id: String,
    /// What it does.
    pub kind: OperationKind,
    /// Its state.
    pub state: OperationState,
    /// Who planned it.
    pub actor: String,
    /// The reason, in the actor's own words.
    pub reason: String,
    /// When it was planned.
    pub planned_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it stopped by itself, if it did.
    pub stop_reason: Option<String>,
    /// How many dead letters are selected.
    pub total: u64,
    /// How many were requested and could not be selected.
    pub refused: u64,
    /// How many of those refused were held by other operations when this one was planned.
    pub held: Vec<Holder>,
    /// How many were sent or discarded so far.
    pub processed: u64,
    /// How many dead letters each queue has in the selection.
    pub queues: Vec<QueueShare>,
    /// How many of those sent completed. Null for discards, as are all the following.
    pub completed: Option<u64>,
    /// How many of those sent were dead-lettered again.
    pub failed: Option<u64>,
    /// How many of those sent have no outcome yet.
    pub in_flight: Option<u64>,
    /// How many are replayed first; the others only if all of these succeed.
    pub canary: Option<u64>,
    /// How long the rest has been waiting for the outcome of the canary; null if it is not.
    pub canary_waiting_seconds: Option<f64>,
    /// The maximum number of messages per second.
    pub rate: Option<f64>,
    /// After how many failures it stops.
    pub stop_after: Option<u64>,
    /// Whether messages get new ids.
    pub new_ids: Option<bool>,
}

named! {
    /// What an operation does.
    OperationKind {
        /// Sends dead letters back to their queues.
        Replay = "replay",
        /// Removes dead letters for good.
        Discard = "discard",
    }
}

named! {
    /// The state of an operation.
    OperationState {
        /// Its selection is frozen; it has not started.
        Planned = "planned",
        /// It is running.
        Running = "running",
        /// Somebody paused it.
        Paused = "paused",
        /// It stopped because too many messages failed.
        Stopped = "stopped",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// Everything is done, and every outcome is known.
        Ended = "ended",
    }
}

/// An operation that holds selected dead letters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Holder {
    /// The id of the operation.
    pub operation: String,
    /// How many it holds.
    pub count: u64,
}

/// The dead letters of one queue in a selection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QueueShare {
    /// The queue.
    pub queue: String,
    /// How many dead letters of it are selected.
    pub count: u64,
}

/// One message of an operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct OperationItem {
    /// Its position in the frozen order, from 1.
    pub position: u64,
    /// The id of the dead letter.
    pub dead_letter: String,
    /// The message's own id.
    pub message_id: String,
    /// The queue it goes to.
    pub queue: String,
    /// What became of it.
    pub state: ItemState,
    /// The dead letter that it became when it failed again.
    pub new_dead_letter: Option<String>,
    /// The cause of the new dead letter.
    pub cause: Option<String>,
}

named! {
    /// What became of a message of an operation.
    ItemState {
        /// It has not been processed yet.
        Waiting = "waiting",
        /// It was sent and has no outcome yet.
        InFlight = "in_flight",
        /// It was sent and completed.
        Completed = "completed",
        /// It was sent and dead-lettered again.
        FailedAgain = "failed_again",
        /// It was discarded.
        Discarded = "discarded",
        /// The operation was cancelled before it was processed.
        Released = "released",
    }
}

/// Replays dead letters, selected either by their ids or by a filter.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplayRequest {
    /// The reason, recorded in the audit log.
    #[schema(required)]
    pub reason: String,
    /// The ids of dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 10000)]
    pub ids: Option<Vec<String>>,
    /// Or a filter; an empty one matches all dead letters.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "reading::optional_filter"
    )]
    pub filter: Option<DeadLetterFilter>,
    /// The expected number; another number is refused.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "reading::optional_whole")]
    pub expect: Option<u64>,
    /// Replay this many first; continue only if all of them succeed.
    #[serde(deserialize_with = "reading::whole")]
    #[schema(format = Int64, maximum = 4294967295u32)]
    pub canary: u32,
    /// At most this many messages per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 1000000)]
    pub rate: Option<f64>,
    /// Stop after this many failures.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "reading::optional_whole")]
    #[schema(format = Int64, minimum = 1, maximum = 4294967295u32)]
    pub stop_after: Option<u32>,
    /// Give messages new ids, so that a receiver that deduplicates treats them as new.
    pub new_ids: bool,
    /// Leave out dead letters that other operations hold, instead of refusing.
    pub skip_held: bool,
    /// Only plan it; a command starts it later.
    pub plan: bool,
}

/// Discards dead letters for good, selected either by their ids or by a filter.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiscardRequest {
    /// The reason, recorded in the audit log.
    #[schema(required)]
    pub reason: String,
    /// The ids of dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 10000)]
    pub ids: Option<Vec<String>>,
    /// Or a filter; an empty one matches all dead letters.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "reading::optional_filter"
    )]
    pub filter: Option<DeadLetterFilter>,
    /// The expected number; another number is refused. Required unless it is only planned.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "reading::optional_whole")]
    pub expect: Option<u64>,
    /// Leave out dead letters that other operations hold, instead of refusing.
    pub skip_held: bool,
    /// Only plan it; a command starts it later.
    pub plan: bool,
}

/// Starts, pauses, resumes or cancels an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationCommandRequest {
    /// What to do.
    pub command: OperationCommand,
    /// The reason, recorded in the audit log.
    pub reason: String,
}

/// A command for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationCommand {
    /// Start it, or resume it after it was paused or stopped.
    Run,
    /// Pause it until it is resumed.
    Pause,
    /// Cancel it, and release the remaining dead letters.
    Cancel,
}

impl Operation {
    /// The JSON of an operation. `waiting` is how long it has been waiting for its canary.
    pub(crate) fn new(operation: &catalogue::Operation, waiting: Option<Duration>) -> Self {
        let replay = match operation.kind {
            catalogue::OperationKind::Replay { canary, per_second, stop_after, ids } => {
                Some((canary, per_second, stop_after, ids))
            }
            catalogue::OperationKind::Discard => None,
        };
        Self {
            id: operation.id.to_string(),
            kind: replay.map_or(OperationKind::Discard, |_| OperationKind::Replay),
            state: operation.state.into(),
            actor: operation.actor.clone(),
            reason: operation.reason.clone(),
            planned_at: operation.planned_at,
            ended_at: operation.ended_at,
            stop_reason: operation.stopped.clone(),
            total: operation.total,
            refused: operation.refused,
            held: Holder::all(&operation.held),
            processed: operation.done,
            queues: operation.queues.iter().map(QueueShare::new).collect(),
            completed: replay.map(|_| operation.completed),
            failed: replay.map(|_| operation.failed),
            in_flight: replay.map(|_| operation.in_flight()),
            canary: replay.map(|(canary, ..)| canary.into()),
            canary_waiting_seconds: waiting.map(|waiting| waiting.as_secs_f64()),
            rate: replay.and_then(|(_, per_second, ..)| per_second),
            stop_after: replay.and_then(|(_, _, stop_after, _)| stop_after.map(Into::into)),
            new_ids: replay.map(|(.., ids)| ids == ReplayIds::New),
        }
    }
}

impl Holder {
    pub(crate) fn all(held: &[(OperationId, u64)]) -> Vec<Self> {
        let holder =
            |(id, count): &(OperationId, u64)| Self { operation: id.to_string(), count: *count };
        held.iter().map(holder).collect()
    }
}

impl QueueShare {
    fn new((queue, count): &(bezoar::QueueName, u64)) -> Self {
        Self { queue: queue.to_string(), count: *count }
    }
}

impl From<catalogue::OperationState> for OperationState {
    fn from(state: catalogue::OperationState) -> Self {
        match state {
            catalogue::OperationState::Planned => Self::Planned,
            catalogue::OperationState::Running => Self::Running,
            catalogue::OperationState::Paused => Self::Paused,
            catalogue::OperationState::Stopped => Self::Stopped,
            catalogue::OperationState::Cancelled => Self::Cancelled,
            catalogue::OperationState::Ended => Self::Ended,
            _ => Self::Unknown,
        }
    }
}

impl From<&catalogue::OperationItem> for OperationItem {
    fn from(item: &catalogue::OperationItem) -> Self {
        let failed = match &item.state {
            catalogue::ItemState::Failed { again, cause } => Some((again, cause)),
            _ => None,
        };
        Self {
            position: item.place,
            dead_letter: item.dead_letter.to_string(),
            message_id: item.message_id.to_string(),
            queue: item.queue.to_string(),
            state: (&item.state).into(),
            new_dead_letter: failed.map(|(again, _)| again.to_string()),
            cause: failed.map(|(_, cause)| cause.to_string()),
        }
    }
}

impl From<&catalogue::ItemState> for ItemState {
    fn from(state: &catalogue::ItemState) -> Self {
        match state {
            catalogue::ItemState::Waiting => Self::Waiting,
            catalogue::ItemState::InFlight => Self::InFlight,
            catalogue::ItemState::Completed => Self::Completed,
            catalogue::ItemState::Failed { .. } => Self::FailedAgain,
            catalogue::ItemState::Discarded => Self::Discarded,
            catalogue::ItemState::Left => Self::Released,
            _ => Self::Unknown,
        }
    }
}

impl From<OperationCommand> for catalogue::OperationCommand {
    fn from(command: OperationCommand) -> Self {
        match command {
            OperationCommand::Run => Self::Run,
            OperationCommand::Pause => Self::Pause,
            OperationCommand::Cancel => Self::Cancel,
        }
    }
}

impl OperationCommand {
    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Pause => "pause",
            Self::Cancel => "cancel",
        }
    }
}
