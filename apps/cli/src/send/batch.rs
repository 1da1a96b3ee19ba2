//! Sends a batch, retries and splits it, until the outcome of every line is known.

use anyhow::anyhow;
use bezoar::MessageId;
use bezoar_gateway::api_types::{AcceptedMessage, BatchAnswer, BatchResult};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{
    Sender,
    batch_outcome::{BatchOutcome, LineError, LineResult, PendingLine},
    lines::{InputLine, LineBatch},
    new_id,
};
use crate::client::{ClientError, Retry, path};

impl Sender<'_> {
    /// Sends lines until the outcome of each is known, or the retry time is used up.
    pub(super) async fn deliver(&self, lines: LineBatch) -> BatchOutcome {
        let mut outcome = BatchOutcome::too_long(&lines);
        let mut retry = Retry::new(self.patience.limit);
        let mut parts = vec![self.items(lines)]; // the next one is last
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.post(&part).await {
                Ok(results) => {
                    if results.iter().any(Result::is_ok) {
                        retry = Retry::new(self.patience.limit); // the retry time starts over after progress
                    }
                    let again = outcome.sort(part, results);
                    if let Some((_, error)) = again.first()
                        && !retry.wait(None).await
                    {
                        outcome.stop = Some(anyhow!(error.detail.clone()));
                        outcome.refuse(again);
                        break;
                    }
                    parts.push(again.into_iter().map(|(item, _)| item).collect());
                }
                Err(error) if error.is_too_large() && part.len() > 1 => halve(part, &mut parts),
                // A proxy that refuses a large body may close the connection without a readable response: split.
                Err(error)
                    if self.patience.covers(&error) && retry.wait(error.retry_after()).await =>
                {
                    if error.is_open() {
                        let part = part.into_iter();
                        let part = part.map(|item| PendingLine { was_sent: true, ..item });
                        halve(part.collect(), &mut parts)
                    } else {
                        parts.push(part)
                    }
                }
                Err(error) => {
                    outcome.give_up(part, error);
                    break;
                }
            }
        }
        outcome.not_sent(parts);
        outcome.outcomes.sort_by_key(|outcome| outcome.number);
        outcome
    }

    fn items(&self, lines: LineBatch) -> Vec<PendingLine> {
        let item = |line: InputLine| {
            let id = self.id.as_ref().map_or_else(new_id, |start| numbered(start, line.number));
            PendingLine { number: line.number, id, body: line.body.into(), was_sent: false }
        };
        lines.lines.into_iter().map(item).collect()
    }

    /// One result per line. A single line is sent as a plain message, which is smaller than a batch.
    async fn post(&self, part: &[PendingLine]) -> Result<Vec<LineResult>, ClientError> {
        match part {
            [item] => self.post_one(item).await.map(|result| vec![result]),
            _ => self.post_batch(part).await,
        }
    }

    async fn post_one(&self, item: &PendingLine) -> Result<LineResult, ClientError> {
        match self.send(&item.id, item.body.clone()).await {
            Ok(reply) => Ok(Ok(reply.parse::<AcceptedMessage>()?.repeated.into())),
            // This line is invalid; the next ones may be fine.
            Err(ClientError::Refused(problem))
                if matches!(problem.status.as_u16(), 400 | 413 | 431) =>
            {
                Ok(Err(LineError { code: problem.code.clone(), detail: problem.to_string() }))
            }
            Err(error) => Err(error),
        }
    }

    async fn post_batch(&self, part: &[PendingLine]) -> Result<Vec<LineResult>, ClientError> {
        let mut body = Vec::new();
        part.iter().for_each(|item| self.envelope.write_item(&item.id, &item.body, &mut body));
        let ndjson = HeaderValue::from_static("application/x-ndjson");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, ndjson)]);
        let path = path(["v1", "queues", self.queue.as_str(), "batches"]);
        let results = match self.client.upload(&path, headers, body.into()).await {
            Ok(reply) => reply.parse::<BatchAnswer>()?.results,
            // All were refused, each with its own reason.
            Err(ClientError::Refused(problem)) if !problem.results.is_empty() => problem.results,
            Err(error) => return Err(error),
        };
        let result = |answered: BatchResult| match answered.error {
            None => Ok(answered.repeated.into()),
            Some(error) => Err(error),
        };
        Ok(results.into_iter().map(result).collect())
    }
}

impl ClientError {
    fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.status == StatusCode::PAYLOAD_TOO_LARGE)
    }
}

fn halve(mut part: Vec<PendingLine>, parts: &mut Vec<Vec<PendingLine>>) {
    let second = part.split_off(part.len().div_ceil(2));
    parts.extend([second, part]);
}

/// The id of a line, the same every time the same input is sent.
fn numbered(start: &MessageId, number: u64) -> MessageId {
    MessageId::new(format!("{start}-{number}")).expect("the length was checked")
}
