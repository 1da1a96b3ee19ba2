//! The outcome of a batch.

use anyhow::Error;
use bezoar::MessageId;
pub(super) use bezoar_gateway::api_types::ItemProblem as LineError;
use bytes::Bytes;

use super::lines::LineBatch;
use crate::client::ClientError;

/// Codes of lines that may be accepted on a retry.
const TRANSIENT: [&str; 6] = [
    "busy",
    "throttled",
    "outcome-unknown",
    "store-unavailable",
    "broker-unavailable",
    "store-full",
];

/// The outcome of a line.
#[derive(Debug)]
pub(super) struct LineOutcome {
    pub(super) number: u64,
    /// `None` if the line never became a message.
    pub(super) id: Option<MessageId>,
    pub(super) result: Result<(), LineError>,
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
        results: Vec<Result<(), LineError>>,
    ) -> Vec<(PendingLine, LineError)> {
        let unanswered = Err(refused("outcome-unknown", "the gateway did not report a result"));
        let mut again = Vec::new();
        for (item, result) in
            part.into_iter().zip(results.into_iter().chain(std::iter::repeat(unanswered)))
        {
            match result {
                Err(error) if TRANSIENT.contains(&error.code.as_str()) => again.push((item, error)),
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

    fn record(&mut self, item: PendingLine, result: Result<(), LineError>) {
        self.outcomes.push(LineOutcome { number: item.number, id: Some(item.id), result });
    }
}

fn refused(code: &str, detail: &str) -> LineError {
    LineError { code: code.to_owned(), detail: detail.to_owned() }
}
