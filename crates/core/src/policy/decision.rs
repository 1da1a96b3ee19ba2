//! What happens to a message next, and the reason, worded for people.

use std::time::Duration;

use crate::{Code, FailedTry, Failure, Ledger, Reason, Settlement};

/// What happens to a message next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Another attempt, not before this delay has passed.
    Retry {
        /// The delay, jitter included.
        after: Duration,
    },
    /// No more attempts.
    DeadLetter,
}

/// A verdict with the facts that people want to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Retry or dead-letter.
    pub verdict: Verdict,
    /// The number of the next retry; for a dead letter, the number of retries made.
    pub retry_count: u32,
    /// How many retries the strategy allows, if it has a maximum.
    pub max_retries: Option<u32>,
    /// The reason, such as "retry 2 of 3", "max retries (3) exhausted" or "non-retryable error:
    /// permanent".
    pub reason: Reason,
}

impl Decision {
    /// A retry of the message with this ledger after at least this delay.
    pub fn retry(ledger: &Ledger, after: Duration) -> Self {
        let retry = ledger.failed.saturating_add(1);
        Self {
            verdict: Verdict::Retry { after },
            retry_count: retry,
            max_retries: None,
            reason: Reason::new(Reason::RETRY, format!("retry {retry}")),
        }
    }

    /// Dead-letters the message with this ledger.
    pub fn dead_letter(ledger: &Ledger, reason: Reason) -> Self {
        Self { verdict: Verdict::DeadLetter, retry_count: ledger.failed, max_retries: None, reason }
    }

    /// Adds how many retries the strategy allows. The reason of a retry then says "retry 2 of 3".
    pub fn of(mut self, max_retries: u32) -> Self {
        self.max_retries = Some(max_retries);
        if let Verdict::Retry { .. } = self.verdict {
            let text = format!("retry {} of {max_retries}", self.retry_count);
            self.reason = Reason::new(Reason::RETRY, text);
        }
        self
    }

    /// How to settle the delivery of the attempt that failed, with its tries.
    pub fn settlement(&self, tries: Vec<FailedTry>) -> Settlement {
        match self.verdict {
            Verdict::Retry { after } => Settlement::Retry { after, tries },
            Verdict::DeadLetter => Settlement::DeadLetter { reason: self.reason.clone(), tries },
        }
    }

    /// The number of the attempt that failed, from 1.
    pub fn attempt(&self) -> u32 {
        match self.verdict {
            Verdict::Retry { .. } => self.retry_count,
            Verdict::DeadLetter => self.retry_count.saturating_add(1),
        }
    }
}

impl Reason {
    /// The message has used up its retries.
    pub fn exhausted(max_retries: u32) -> Self {
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
