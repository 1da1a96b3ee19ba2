//! The outcome of each message of a replay or discard.

use std::collections::BTreeMap;

use anyhow::Result;
use bezoar_gateway::api_types::{OperationItem, Page};

use super::operation::Operation;
use crate::{
    client::{ApiClient, path},
    humanize::{count, plural},
};

/// How many pages of 1,000 messages are read to find the causes of failures.
const PAGES: usize = 100;
/// How many causes are listed.
const CAUSES: usize = 10;

/// A page of messages in order, after a position.
pub(super) async fn page(
    client: &ApiClient,
    operation: &str,
    after: &str,
) -> Result<Page<OperationItem>> {
    let path = path(["v1", "replays", operation, "messages"]);
    Ok(client.get(&format!("{path}?after={after}")).await?.parse()?)
}

/// Why messages failed again, as lines of text.
pub(super) async fn failures(client: &ApiClient, operation: &Operation) -> Result<Vec<String>> {
    let mut wanted = operation.failed.unwrap_or_default();
    let (mut found, mut after) = (FailuresByCause::default(), Some("0".to_owned()));
    for _ in 0..PAGES {
        let Some(position) = after.filter(|_| wanted > 0) else { break };
        let page = page(client, &operation.id, &position).await?;
        for item in &page.items {
            wanted = wanted.saturating_sub(found.add(item));
        }
        after = page.next;
    }
    Ok(found.lines())
}

/// For each cause the number of failures, and one dead letter as an example.
#[derive(Debug, Default)]
struct FailuresByCause(BTreeMap<String, (u64, String)>);

impl FailuresByCause {
    /// Counts a message; returns 1 if it failed again.
    fn add(&mut self, item: &OperationItem) -> u64 {
        let Some((again, cause)) = item.new_dead_letter.as_ref().zip(item.cause.as_ref()) else {
            return 0;
        };
        let (number, _) = self.0.entry(cause.clone()).or_insert_with(|| (0, again.clone()));
        *number += 1;
        1
    }

    /// Most frequent first.
    fn lines(self) -> Vec<String> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_by_key(|(_, (number, _))| std::cmp::Reverse(*number));
        let line = |(cause, (number, again)): &(String, (u64, String))| {
            format!("  {} × {cause}, for example dead letter {again}", count(*number))
        };
        let mut lines: Vec<_> = all.iter().take(CAUSES).map(line).collect();
        if all.len() > CAUSES {
            lines.push(format!("  … and {} more", plural((all.len() - CAUSES) as u64, "cause")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_are_grouped_by_cause_most_frequent_first() {
        let mut failures = FailuresByCause::default();
        for (place, cause) in [(1, Some("v1:a")), (2, Some("v1:b")), (3, Some("v1:b")), (4, None)] {
            let item = serde_json::from_value(json!({
                "position": place, "dead_letter": format!("dl_0000000{place}"), "message_id": "m", "queue": "q",
                "state": "failed_again", "new_dead_letter": cause.map(|_| format!("dl_1000000{place}")), "cause": cause,
            }));
            assert_eq!(failures.add(&item.unwrap()), u64::from(cause.is_some()));
        }
        let expected = [
            "  2 × v1:b, for example dead letter dl_10000002",
            "  1 × v1:a, for example dead letter dl_10000001",
        ];
        assert_eq!(failures.lines(), expected);
    }
}
