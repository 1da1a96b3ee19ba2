//! A batch on its way: sent, sent again, cut in halves, until it is known what became of every line.

use anyhow::anyhow;
use bezoar::MessageId;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    Sender,
    delivered::{Delivered, Item, Refusal},
    lines::{Line, Lines},
    new_id,
};
use crate::client::{ClientError, Retry, path};

/// The gateway's answer to a batch.
#[derive(Deserialize)]
struct Answer {
    results: Vec<Answered>,
}

#[derive(Deserialize)]
struct Answered {
    error: Option<Refusal>,
}

impl Sender<'_> {
    /// Sends lines until it is known what became of each, or patience is at an end.
    pub(super) async fn deliver(&self, lines: Lines) -> Delivered {
        let mut delivered = Delivered::too_long(&lines);
        let mut retry = Retry::new(self.retry_for);
        let mut parts = vec![self.items(lines)]; // the next one last
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.post(&part).await {
                Ok(results) => {
                    if results.iter().any(Result::is_ok) {
                        retry = Retry::new(self.retry_for); // patience ends when nothing gets on
                    }
                    let again = delivered.sort(part, results);
                    if let Some((_, refusal)) = again.first()
                        && !retry.wait(None).await
                    {
                        delivered.stop = Some(anyhow!(refusal.detail.clone()));
                        delivered.refuse(again);
                        break;
                    }
                    parts.push(again.into_iter().map(|(item, _)| item).collect());
                }
                Err(error) if error.is_too_large() && part.len() > 1 => halve(part, &mut parts),
                // Some who refuse a large body close the connection, so that their reason is never read.
                Err(error) if error.is_transient() && retry.wait(error.retry_after()).await => {
                    if error.is_open() {
                        halve(part, &mut parts)
                    } else {
                        parts.push(part)
                    }
                }
                Err(error) => {
                    delivered.give_up(part, error);
                    break;
                }
            }
        }
        delivered.not_sent(parts);
        delivered.outcomes.sort_by_key(|outcome| outcome.number);
        delivered
    }

    fn items(&self, lines: Lines) -> Vec<Item> {
        let item = |line: Line| {
            let id = self.id.as_ref().map_or_else(new_id, |start| numbered(start, line.number));
            Item { number: line.number, id, body: line.body.into() }
        };
        lines.lines.into_iter().map(item).collect()
    }

    /// One result for each. A line alone goes as it is, because it takes the least room so.
    async fn post(&self, part: &[Item]) -> Result<Vec<Result<(), Refusal>>, ClientError> {
        match part {
            [item] => self.post_one(item).await.map(|result| vec![result]),
            _ => self.post_batch(part).await,
        }
    }

    async fn post_one(&self, item: &Item) -> Result<Result<(), Refusal>, ClientError> {
        match self.send(&item.id, item.body.clone()).await {
            Ok(_) => Ok(Ok(())),
            // What is wrong with this line is not wrong with the next.
            Err(ClientError::Refused(problem))
                if matches!(problem.status.as_u16(), 400 | 413 | 431) =>
            {
                Ok(Err(Refusal { code: problem.code.clone(), detail: problem.to_string() }))
            }
            Err(error) => Err(error),
        }
    }

    async fn post_batch(&self, part: &[Item]) -> Result<Vec<Result<(), Refusal>>, ClientError> {
        let mut body = Vec::new();
        part.iter().for_each(|item| self.envelope.write_item(&item.id, &item.body, &mut body));
        let ndjson = HeaderValue::from_static("application/x-ndjson");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, ndjson)]);
        let path = path(["v1", "queues", self.queue.as_str(), "batches"]);
        let answer: Answer = self.client.upload(&path, headers, body.into()).await?.parse()?;
        let result = |answered: Answered| answered.error.map_or(Ok(()), Err);
        Ok(answer.results.into_iter().map(result).collect())
    }
}

impl ClientError {
    fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.status == StatusCode::PAYLOAD_TOO_LARGE)
    }
}

fn halve(mut part: Vec<Item>, parts: &mut Vec<Vec<Item>>) {
    let second = part.split_off(part.len().div_ceil(2));
    parts.extend([second, part]);
}

/// The id of a line, the same whenever the same input is sent.
fn numbered(start: &MessageId, number: u64) -> MessageId {
    MessageId::new(format!("{start}-{number}")).expect("its length was checked")
}
