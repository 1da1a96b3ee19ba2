//! How dead letters are selected: by conditions or by their ids, and page by page.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use super::{CauseId, DeadLetterSummary};
use crate::{
    Code, CorrelationId, DeadLetterId, FailureKind, Invalid, MessageId, MessageType, QueueName,
    millis,
};

/// Conditions for dead letters. A dead letter matches if it meets every condition that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// In one of these queues.
    pub queues: Option<Vec<QueueName>>,
    /// Of this type.
    pub message_type: Option<MessageType>,
    /// With a last failure of this kind.
    pub kind: Option<FailureKind>,
    /// With this code.
    pub code: Option<Code>,
    /// Of this cause.
    pub cause: Option<CauseId>,
    /// With this correlation id.
    pub correlation_id: Option<CorrelationId>,
    /// With this message id.
    pub message_id: Option<MessageId>,
    /// Dead-lettered at or after this time.
    pub since: Option<Timestamp>,
    /// Dead-lettered before this time.
    pub until: Option<Timestamp>,
    /// Arrived in this store before this time. Expiry uses this condition.
    pub arrived_before: Option<Timestamp>,
    /// With at least this many attempts.
    pub min_attempts: Option<u32>,
    /// Replayed at least once (`true`), or never (`false`).
    pub replayed: Option<bool>,
    /// In a state of this name, see [`DeadLetterState::as_str`].
    pub state: Option<&'static str>,
}

impl Filter {
    /// Whether a dead letter matches. Stores that search by other means must agree with this.
    pub fn matches(&self, letter: &DeadLetterSummary) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        self.queues.as_ref().is_none_or(|queues| queues.contains(&letter.queue))
            && is(&self.message_type, &letter.message_type)
            && is(&self.kind, &letter.kind)
            && is(&self.code, &letter.code)
            && is(&self.cause, &letter.cause)
            && self
                .correlation_id
                .as_ref()
                .is_none_or(|_| self.correlation_id == letter.correlation_id)
            && is(&self.message_id, &letter.message_id)
            && self.since.is_none_or(|since| letter.died_at >= since)
            && self.until.is_none_or(|until| letter.died_at < until)
            && self.arrived_before.is_none_or(|before| letter.arrived_at < before)
            && self.min_attempts.is_none_or(|least| letter.attempts >= least)
            && self.replayed.is_none_or(|replayed| (letter.replayed > 0) == replayed)
            && self.state.is_none_or(|state| letter.state.as_str() == state)
    }

    /// Whether some condition is an attribute of causes, so that a store can choose among causes before it reads dead
    /// letters.
    pub fn chooses_causes(&self) -> bool {
        let Self { queues, message_type, kind, code, cause, min_attempts, .. } = self;
        queues.is_some()
            || message_type.is_some()
            || kind.is_some()
            || code.is_some()
            || cause.is_some()
            || min_attempts.is_some()
    }

    /// Whether every condition is an attribute of causes, so that the counts of causes can be used to
    /// count matches.
    pub fn is_of_causes_only(&self) -> bool {
        let Self {
            correlation_id,
            message_id,
            since,
            until,
            arrived_before,
            min_attempts,
            replayed,
            state,
            ..
        } = self;
        correlation_id.is_none()
            && message_id.is_none()
            && since.is_none()
            && until.is_none()
            && arrived_before.is_none()
            && min_attempts.is_none()
            && replayed.is_none()
            && state.is_none()
    }
}

/// Which part of a list to return, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRequest {
    /// Start after this position; from the newest if `None`.
    pub after: Option<ListPosition>,
    /// The maximum number to list.
    pub limit: u32,
}

/// A position in a list of dead letters. It stays valid when the dead letter is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPosition {
    /// When the message was dead-lettered. Lists are ordered by this.
    pub died_at: Timestamp,
    /// The id, which orders dead letters of the same time.
    pub id: DeadLetterId,
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.died_at.as_millisecond(), self.id)
    }
}

impl FromStr for ListPosition {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parts =
            text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
        let (at, id) = parts.ok_or_else(|| {
            Invalid::new("after", "is not the `next` of an earlier page; start with the first page")
        })?;
        Ok(Self { died_at: millis(at), id })
    }
}

/// A selection of dead letters. Exhaustive: a store must support every selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The dead letters with these ids. An unknown id is an error.
    Ids(Vec<DeadLetterId>),
    /// The open dead letters that match at this moment.
    Matching(Filter),
}
