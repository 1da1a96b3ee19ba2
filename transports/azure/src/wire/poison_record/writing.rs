//! A message that is set aside, as a record that always fits.

use bezoar_core::{CorrelationId, Detail, FailedTry, Ledger, QueueName, Reason};
use jiff::Timestamp;
use serde_json::value::Value;

use super::{Ours, Record, letter_id};
use crate::{
    ErrorTexts, ForeignText,
    connection::queue_client::Fetched,
    wire::{LIMIT_BYTES, json, ledger, stored_text, stored_text::Content, with_member},
};

/// A reason's text is cut to this length where room is scarce.
const SHORT_REASON_BYTES: usize = 200;

/// A message that is to be set aside.
pub(crate) struct Poisoned<'a> {
    pub(crate) fetched: &'a Fetched,
    /// The queue in which it died, and the id that it had there: the same message is always the same letter.
    pub(crate) died_in: (&'a QueueName, &'a str),
    /// What is kept of it: its text as it was sent.
    pub(crate) original_text: String,
    /// The correlation id and the retry count, if the poison-queue retry processor gave it up.
    pub(crate) retried: Option<(Option<CorrelationId>, u32)>,
    /// With the last attempt.
    pub(crate) ledger: Ledger,
    pub(crate) reason: &'a Reason,
    pub(crate) at: Timestamp,
}

impl Poisoned<'_> {
    /// The text for the poison queue. It always fits.
    pub(crate) fn write(&self, error_texts: ErrorTexts) -> String {
        let ledger = match error_texts {
            ErrorTexts::Keep => self.ledger.clone(),
            _ => without_details(&self.ledger),
        };
        self.record(&ledger, error_texts)
            .or_else(|| self.marked(&ledger))
            .unwrap_or_else(|| self.original_text.clone())
    }

    fn record(&self, ledger: &Ledger, error_texts: ErrorTexts) -> Option<String> {
        let last = self.ledger.last();
        let error_text = match error_texts {
            ErrorTexts::Keep => last.map(|it| it.detail.reveal().clone()),
            ErrorTexts::Redact | ErrorTexts::Omit => None,
        };
        let reason = || (error_texts != ErrorTexts::Omit).then(|| self.reason.to_string());
        let mut record = Record {
            original_message_id: self.fetched.id.clone(),
            original_text: self.original_text.clone(),
            dequeue_count: self.fetched.dequeue_count,
            time: Some(self.at.to_string()),
            error_type: Some(last.map_or(self.reason.code(), |it| &it.code).to_string()),
            error_text: error_text.or_else(reason),
            correlation_id: self.correlation_id().map_or(Value::Null, |it| it.as_str().into()),
            retry_count: self.retried.as_ref().map(|(_, count)| *count),
        };
        let plain = json(&record);
        let text = fitted(&plain, "Bezoar", ledger, |it| self.ours(it, usize::MAX));
        text.or_else(|| {
            record.error_text = None;
            fitted(&json(&record), "Bezoar", ledger, |it| self.ours(it, SHORT_REASON_BYTES))
        })
    }

    fn correlation_id(&self) -> Option<&CorrelationId> {
        self.retried.as_ref().and_then(|(id, _)| id.as_ref())
    }

    /// An envelope of ours with the reason, for a message that leaves no room for a record.
    fn marked(&self, ledger: &Ledger) -> Option<String> {
        let plain = &self.original_text;
        let is_ours =
            matches!(stored_text::read(self.fetched, ForeignText::Plain), Content::Message(_))
                && plain.starts_with('{')
                && stored_text::is_envelope(plain);
        if !is_ours {
            return None;
        }
        fitted(plain, "dead", ledger, |it| self.ours(it, SHORT_REASON_BYTES))
    }

    fn ours(&self, ledger: &Ledger, reason_bytes: usize) -> String {
        let mut reason = self.reason.to_string();
        reason.truncate(reason.floor_char_boundary(reason_bytes));
        let ours = Ours {
            letter: letter_id(self.died_in.0, self.died_in.1).number(),
            code: self.reason.code().to_string(),
            reason,
            at: self.at.as_millisecond(),
        };
        with_member(&json(&ours), "ledger", &ledger::write(ledger))
    }
}

/// The object with a member that holds the ledger, shortened until it fits.
fn fitted(
    object: &str,
    member: &str,
    ledger: &Ledger,
    value: impl Fn(&Ledger) -> String,
) -> Option<String> {
    let mut ledger = ledger.clone();
    let with = |it: &Ledger| with_member(object, member, &value(it));
    ledger.fit(|it| with(it).len() <= LIMIT_BYTES).then(|| with(&ledger))
}

fn without_details(ledger: &Ledger) -> Ledger {
    let tries = ledger.history().iter().cloned();
    let history = tries.map(|it| FailedTry { detail: Detail::default(), ..it }).collect();
    let (acquired, failed) = (ledger.acquired, ledger.failed);
    let mut without = Ledger::restored(acquired, failed, ledger.released, ledger.replayed, history);
    (without.replay, without.uncounted) = (ledger.replay, ledger.uncounted.clone());
    without
}
