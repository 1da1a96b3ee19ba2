//! Operations: frozen selections that are replayed or discarded step by step.

use jiff::Timestamp;

use super::{CatalogueError, CauseId, Selection};
use crate::{
    DeadLetterId, Invalid, MessageId, QueueName, RequestKey,
    public_id::{OPERATION, public_id},
};

public_id!(
    /// The identity of an operation.
    OperationId, OPERATION
);

/// A plan: what to do with a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationPlan {
    /// What the operation does.
    pub kind: OperationKind,
    /// The dead letters to replay or discard.
    pub selection: Selection,
    /// The expected number of dead letters; if the selection has another number, nothing is
    /// planned.
    pub expect: Option<u64>,
    /// What to do if other operations hold some of the selected dead letters.
    pub held: HeldLetters,
    /// The request that asks for the operation, if repetitions of it must not plan another one.
    pub request: Option<OperationRequest>,
}

/// A request of one actor whose repetitions are recognized for as long as its operation is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRequest {
    /// The key that the actor chose. Keys of different actors are different keys.
    pub key: RequestKey,
    /// A digest of what is requested: the same key with another digest is refused.
    pub digest: [u8; 32],
}

/// What a plan does about dead letters that other operations hold. Exhaustive: a store must support
/// both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeldLetters {
    /// Plan nothing, and return an error that names the operations.
    #[default]
    Refuse,
    /// Leave them out; [`Operation::held`] names the operations.
    Skip,
}

impl OperationPlan {
    /// Rejects an invalid plan.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::Invalid`] unless the rate is above 0.
    pub fn check(&self) -> Result<(), CatalogueError> {
        match self.kind {
            OperationKind::Replay { per_second: Some(rate), .. }
                if !rate.is_finite() || rate <= 0.0 =>
            {
                Err(Invalid::new("rate", "is not above 0").into())
            }
            _ => Ok(()),
        }
    }

    /// Compares the number of selected dead letters with the expected one.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::Unexpected`] if the numbers differ.
    pub fn check_expected(&self, found: u64) -> Result<(), CatalogueError> {
        match self.expect.filter(|expected| *expected != found) {
            Some(expected) => Err(CatalogueError::Unexpected { expected, found }),
            None => Ok(()),
        }
    }
}

/// What an operation does. Exhaustive: a store must support every kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OperationKind {
    /// Replays dead letters to their queues.
    Replay {
        /// Replays this many first and continues only if all of them succeed; 0 for no canary.
        canary: u32,
        /// The maximum number of messages per second.
        per_second: Option<f64>,
        /// Stops after this many have failed again.
        stop_after: Option<u32>,
        /// Whether messages get new ids.
        ids: ReplayIds,
    },
    /// Removes dead letters for good.
    Discard,
}

impl Eq for OperationKind {}

/// Which ids replayed messages have. Exhaustive: there are no other choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayIds {
    /// The same ids: a receiver that deduplicates recognizes the messages.
    #[default]
    Same,
    /// New ids: a receiver that deduplicates treats them as new messages. The old id becomes the causation id.
    New,
}

/// An operation and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The id of the operation.
    pub id: OperationId,
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
    /// Why it was stopped, if it was.
    pub stopped: Option<String>,
    /// How many dead letters are selected.
    pub total: u64,
    /// How many were requested but could not be selected.
    pub refused: u64,
    /// How many of those refused were held by other operations when this one was planned.
    pub held: Vec<(OperationId, u64)>,
    /// How many were sent or discarded.
    pub done: u64,
    /// How many of those sent completed.
    pub completed: u64,
    /// How many of those sent were dead-lettered again.
    pub failed: u64,
    /// The queues, with the number of messages for each.
    pub queues: Vec<(QueueName, u64)>,
}

impl Operation {
    /// How many were sent and have no outcome yet.
    pub fn in_flight(&self) -> u64 {
        self.done.saturating_sub(self.completed).saturating_sub(self.failed)
    }
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationState {
    /// Its selection is frozen; it has not started.
    Planned,
    /// It is running.
    Running,
    /// Somebody paused it.
    Paused,
    /// It stopped because too many messages failed. It can be resumed or cancelled.
    Stopped,
    /// Somebody cancelled it; the remaining dead letters are released.
    Cancelled,
    /// Everything is done; for a replay, every outcome is known.
    Ended,
}

impl OperationState {
    /// Every state.
    pub const ALL: &[Self] =
        &[Self::Planned, Self::Running, Self::Paused, Self::Stopped, Self::Cancelled, Self::Ended];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
            Self::Ended => "ended",
        }
    }

    /// The state with this name. One that is not known, of a later version, counts as paused: nothing happens by itself.
    pub fn from_stored(name: &str) -> Self {
        Self::ALL.iter().copied().find(|it| it.as_str() == name).unwrap_or(Self::Paused)
    }

    /// Whether nothing but outcomes will change any more.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Cancelled | Self::Ended)
    }
}

/// A command for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationCommand {
    /// Starts a planned operation, or resumes a paused or stopped one.
    Run,
    /// Pauses it until it is resumed.
    Pause,
    /// Cancels it and releases the remaining dead letters.
    Cancel,
}

impl OperationCommand {
    /// The next state, or `None` if the command does not apply to the current one.
    pub const fn applied_to(self, state: OperationState) -> Option<OperationState> {
        use OperationState::{Cancelled, Ended, Paused, Planned, Running, Stopped};
        match (self, state) {
            (_, Cancelled | Ended) => None,
            (Self::Run, Planned | Paused | Stopped | Running) => Some(Running),
            (Self::Pause, Running | Paused) => Some(Paused),
            (Self::Pause, Planned | Stopped) => None,
            (Self::Cancel, _) => Some(Cancelled),
        }
    }
}

/// The result of one step of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// How many were done in this step.
    pub done: u32,
    /// The operation afterwards.
    pub operation: Operation,
}

/// One message of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationItem {
    /// Its position in the frozen order, from 1.
    pub place: u64,
    /// The id of the dead letter.
    pub dead_letter: DeadLetterId,
    /// The message id at the time of selection.
    pub message_id: MessageId,
    /// The queue it goes to.
    pub queue: QueueName,
    /// Its outcome.
    pub state: ItemState,
}

/// The outcome of a message of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemState {
    /// It has not been processed yet.
    Waiting,
    /// It was sent, and is ready, delayed or with a worker.
    InFlight,
    /// It was sent and completed.
    Completed,
    /// It was sent and dead-lettered again.
    Failed {
        /// The new dead letter.
        again: DeadLetterId,
        /// Its cause.
        cause: CauseId,
    },
    /// It was discarded.
    Discarded,
    /// The operation was cancelled before it was processed.
    Left,
}

impl ItemState {
    /// Its name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::InFlight => "in flight",
            Self::Completed => "completed",
            Self::Failed { .. } => "failed again",
            Self::Discarded => "discarded",
            Self::Left => "left",
        }
    }
}

/// What an operation may do next, according to its progress. Exhaustive: whoever runs it must obey every
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Continue with at most this many.
    Go(u64),
    /// Wait for the outcome of the canary.
    AwaitCanary,
    /// Everything is sent, or as much as may be in flight; wait for outcomes.
    AwaitOutcomes,
    /// Stop: too many failed.
    Stop,
}

impl Operation {
    /// The maximum number in flight: a replay that stops after failures must see them before everything is sent.
    fn window(&self) -> Option<u64> {
        let OperationKind::Replay { stop_after, .. } = self.kind else { return None };
        stop_after.map(|most| (u64::from(most) * 4).max(64))
    }

    /// What it may do next. The rate is not part of this.
    pub fn next(&self) -> NextStep {
        let left = self.total - self.done.min(self.total);
        let OperationKind::Replay { canary, stop_after, .. } = self.kind else {
            return NextStep::Go(left);
        };
        let canary = u64::from(canary).min(self.total);
        if stop_after.is_some_and(|most| self.failed >= u64::from(most.max(1))) {
            return if left == 0 { NextStep::AwaitOutcomes } else { NextStep::Stop };
        }
        match (left, canary) {
            (0, _) => NextStep::AwaitOutcomes,
            (_, canary) if self.done < canary => NextStep::Go(canary - self.done),
            (_, canary) if self.done == canary && canary > 0 && self.failed > 0 => NextStep::Stop,
            (_, canary) if self.done == canary && self.completed < canary => NextStep::AwaitCanary,
            (left, _) => match self.window().map(|most| most.saturating_sub(self.in_flight())) {
                Some(0) => NextStep::AwaitOutcomes,
                Some(room) => NextStep::Go(left.min(room)),
                None => NextStep::Go(left),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(canary: u32, stop_after: Option<u32>, counts: [u64; 4]) -> Operation {
        let [total, done, completed, failed] = counts;
        Operation {
            id: OperationId::from_number(1),
            kind: OperationKind::Replay {
                canary,
                per_second: None,
                stop_after,
                ids: ReplayIds::Same,
            },
            state: OperationState::Running,
            actor: String::new(),
            reason: String::new(),
            planned_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
            stopped: None,
            total,
            refused: 0,
            held: Vec::new(),
            done,
            completed,
            failed,
            queues: Vec::new(),
        }
    }

    #[test]
    fn a_replay_sends_its_canary_waits_for_it_and_continues() {
        for (counts, expected) in [
            ([10, 0, 0, 0], NextStep::Go(3)),
            ([10, 2, 0, 0], NextStep::Go(1)),
            ([10, 3, 2, 0], NextStep::AwaitCanary),
            ([10, 3, 2, 1], NextStep::Stop),
            ([10, 3, 3, 0], NextStep::Go(7)),
            ([10, 7, 3, 2], NextStep::Go(3)),
            ([10, 10, 9, 0], NextStep::AwaitOutcomes),
            ([2, 2, 0, 0], NextStep::AwaitOutcomes),
        ] {
            assert_eq!(replay(3, None, counts).next(), expected, "{counts:?}");
        }
    }

    #[test]
    fn without_a_canary_all_are_sent_until_too_many_failed() {
        assert_eq!(replay(0, Some(2), [10, 4, 0, 1]).next(), NextStep::Go(6));
        assert_eq!(replay(0, Some(2), [10, 4, 0, 2]).next(), NextStep::Stop);
        assert_eq!(replay(0, Some(2), [10, 10, 0, 2]).next(), NextStep::AwaitOutcomes);
        assert_eq!(replay(0, Some(0), [10, 0, 0, 0]).next(), NextStep::Go(10));
    }

    #[test]
    fn a_replay_that_stops_after_failures_limits_messages_in_flight() {
        assert_eq!(replay(0, Some(20), [10_000, 0, 0, 0]).next(), NextStep::Go(80));
        assert_eq!(replay(0, Some(20), [10_000, 80, 30, 0]).next(), NextStep::Go(30));
        assert_eq!(replay(0, Some(20), [10_000, 80, 0, 0]).next(), NextStep::AwaitOutcomes);
        assert_eq!(replay(0, None, [10_000, 80, 0, 0]).next(), NextStep::Go(9_920));
    }

    #[test]
    fn commands_apply_only_to_matching_states() {
        use OperationState::{Cancelled, Ended, Paused, Planned, Running, Stopped};
        assert_eq!(OperationCommand::Run.applied_to(Stopped), Some(Running));
        assert_eq!(OperationCommand::Pause.applied_to(Planned), None);
        assert_eq!(OperationCommand::Cancel.applied_to(Paused), Some(Cancelled));
        assert_eq!(OperationCommand::Run.applied_to(Ended), None);
    }
}
