//! How dead letters are chosen: by conditions, page by page, or by their ids.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use super::{CauseId, DeadLetterSummary};
use crate::{
    Code, CorrelationId, DeadLetterId, FailureKind, Invalid, MessageId, MessageType, QueueName,
    millis,
};

/// Which dead letters. Those match that fulfil every condition that is given.
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
    /// Died at or after this time.
    pub since: Option<Timestamp>,
    /// Died before this time.
    pub until: Option<Timestamp>,
    /// Arrived in this store before this time, which is what expiry goes by.
    pub arrived_before: Option<Timestamp>,
    /// After at least so many attempts.
    pub min_attempts: Option<u32>,
    /// Replayed before, or never.
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

    /// Whether every condition is an attribute of causes, so that their counts answer how many match.
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

/// A part of a list, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRequest {
    /// Start after this position; with the newest if `None`.
    pub after: Option<ListPosition>,
    /// The most to list.
    pub limit: u32,
}

/// A position in a list of dead letters. It stays valid when the dead letter is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPosition {
    /// When the dead letter died: lists are ordered by this.
    pub died_at: Timestamp,
    /// The dead letter, among those that died at the same time.
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

/// Some dead letters. Closed: a store has to carry out every selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// These. One that is not there is an error.
    Ids(Vec<DeadLetterId>),
    /// Those that fit now and wait for somebody.
    Matching(Filter),
}
