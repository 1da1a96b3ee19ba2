//! The outcome of a batch.

use anyhow::Error;
use bezoar::MessageId;
pub(super) use bezoar_gateway::api_types::ItemProblem as LineError;
use bytes::Bytes;

use super::lines::LineBatch;
use crate::client::ClientError;

/// What the gateway said about a line.
pub(super) type LineResult = Result<LineAcceptance, LineError>;

/// Codes of lines that may be accepted on a retry.
const TRANSIENT: [&str; 6] = [
    "busy",
    "throttled",
    "outcome-unknown",
    "store-unavailable",
    "broker-unavailable",
    "store-full",
];

/// How a line was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineAcceptance {
    New,
    /// The same message was accepted before.
    Repeated,
}

impl From<bool> for LineAcceptance {
    /// From the member `repeated` of an answer.
    fn from(repeated: bool) -> Self {
        if repeated { Self::Repeated } else { Self::New }
    }
}

/// The outcome of a line.
#[derive(Debug)]
pub(super) struct LineOutcome {
    pub(super) number: u64,
    /// `None` if the line never became a message.
    pub(super) id: Option<MessageId>,
    pub(super) result: LineResult,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchOutcome {
    /// In the order of the lines.
    pub(super) outcomes: Vec<LineOutcome>,
    /// The size of its part of the input.
    pub(super) bytes: u64,
    /// Why sending more is pointless.
    pub(super) stop: Option<Error>,
}

/// A line with its id, which stays the same over retries.
pub(super) struct PendingLine {
    pub(super) number: u64,
    pub(super) id: MessageId,
    pub(super) body: Bytes,
    /// Whether it was sent before without a final answer: if the gateway knows it, this is why.
    pub(super) was_sent: bool,
}

impl BatchOutcome {
    pub(super) fn too_long(lines: &LineBatch) -> Self {
        let error = refused("too-large", "the line is too long; send it as a separate file");
        let outcome =
            |number: &u64| LineOutcome { number: *number, id: None, result: Err(error.clone()) };
        let outcomes = lines.too_long.iter().map(outcome).collect();
        Self { outcomes, bytes: lines.bytes, stop: None }
    }

    /// Records final results, and returns the lines to send again.
    pub(super) fn sort(
        &mut self,
        part: Vec<PendingLine>,
        results: Vec<LineResult>,
    ) -> Vec<(PendingLine, LineError)> {
        let unanswered = Err(refused("outcome-unknown", "the gateway did not report a result"));
        let mut again = Vec::new();
        for (item, result) in
            part.into_iter().zip(results.into_iter().chain(std::iter::repeat(unanswered)))
        {
            match result {
                Err(error) if TRANSIENT.contains(&error.code.as_str()) => {
                    again.push((PendingLine { was_sent: true, ..item }, error));
                }
                Ok(_) if item.was_sent => self.record(item, Ok(LineAcceptance::New)),
                result => self.record(item, result),
            }
        }
        again
    }

    pub(super) fn give_up(&mut self, part: Vec<PendingLine>, error: ClientError) {
        let line_error = match error.is_open() {
            true => refused("outcome-unknown", &format!("{error}; it may have been accepted")),
            false => refused("not-accepted", &error.to_string()),
        };
        self.refuse(part.into_iter().map(|item| (item, line_error.clone())));
        self.stop = Some(error.into());
    }

    pub(super) fn not_sent(&mut self, parts: Vec<Vec<PendingLine>>) {
        let error = refused("not-sent", "not sent because an earlier line failed");
        self.refuse(parts.into_iter().flatten().map(|item| (item, error.clone())));
    }

    pub(super) fn refuse(&mut self, items: impl IntoIterator<Item = (PendingLine, LineError)>) {
        items.into_iter().for_each(|(item, error)| self.record(item, Err(error)));
    }

    fn record(&mut self, item: PendingLine, result: LineResult) {
        self.outcomes.push(LineOutcome { number: item.number, id: Some(item.id), result });
    }
}

fn refused(code: &str, detail: &str) -> LineError {
    LineError { code: code.to_owned(), detail: detail.to_owned() }
}
