//! What is to become of a message, and why, as a person reads it.

use std::time::Duration;

use crate::{Code, Failure, Reason};

/// What is to become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Another attempt, not before this delay has passed.
    Retry {
        /// The delay, jitter included.
        after: Duration,
    },
    /// No more attempts.
    DeadLetter,
}

/// A verdict with what a person wants to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Retry or dead-letter.
    pub verdict: Verdict,
    /// How many retries there will have been: one more for a retry, as before for a dead letter.
    pub retry_count: u32,
    /// "retry 2 of 3", "max retries (3) exhausted", "non-retryable error: permanent".
    pub reason: Reason,
}

impl Reason {
    pub(super) fn retry(number: u32, of: u32) -> Self {
        Self::new(Self::RETRY, format!("retry {number} of {of}"))
    }

    pub(super) fn exhausted(max_retries: u32) -> Self {
        Self::new(Self::EXHAUSTED, format!("max retries ({max_retries}) exhausted"))
    }

    pub(super) fn not_retryable(failure: &Failure) -> Self {
        if failure.code == Code::UNDECODABLE {
            return Self::undecodable();
        }
        if failure.code == Code::NO_HANDLER {
            return Self::new(Code::NO_HANDLER, "no handler for this type of message");
        }
        Self::new(Self::NOT_RETRYABLE, format!("non-retryable error: {}", failure.kind))
    }
}
