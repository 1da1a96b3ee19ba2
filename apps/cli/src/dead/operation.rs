//! A replay or discard: requests about it, and its progress as text.

use std::time::Duration;

use anyhow::Result;
use bezoar_gateway::api_types::{Holder, OperationCommandRequest, OperationKind, OperationState};
pub(super) use bezoar_gateway::api_types::{Operation, OperationCommand};

use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    humanize::{self, count, plural},
};

/// An operation, and the JSON it was parsed from.
#[derive(Debug)]
pub(super) struct OperationReply {
    pub(super) reply: ApiReply,
    pub(super) operation: Operation,
}

impl OperationReply {
    pub(super) fn new(reply: ApiReply) -> Result<Self, ClientError> {
        let operation = reply.parse()?;
        Ok(Self { reply, operation })
    }
}

/// Adds a hint to an error if the operation may have started nevertheless.
pub(super) fn begun(result: Result<OperationReply, ClientError>) -> Result<OperationReply> {
    result.map_err(|error| {
        let words = "the operation may have started; check with `bezoar dead replays`";
        let is_open = error.is_open();
        let error = anyhow::Error::new(error);
        if is_open { error.context(words) } else { error }
    })
}

pub(super) async fn fetch(client: &ApiClient, id: &str) -> Result<OperationReply, ClientError> {
    client.get(&path(["v1", "replays", id])).await.and_then(OperationReply::new)
}

pub(super) async fn send_command(
    client: &ApiClient,
    id: &str,
    command: OperationCommand,
    reason: &str,
) -> Result<OperationReply, ClientError> {
    let order = OperationCommandRequest { command, reason: reason.to_owned() };
    client.order(&path(["v1", "replays", id]), &order).await.and_then(OperationReply::new)
}

/// An operation as text.
pub(super) trait OperationText {
    fn is_replay(&self) -> bool;
    /// `replay op_209aaw0b`
    fn name(&self) -> String;
    /// Whether it has ended, or is stopped until somebody resumes it.
    fn is_over(&self) -> bool;
    /// Whether the canary is still running.
    fn is_canary(&self) -> bool;
    /// Which other operations hold dead letters that were left out, one line each.
    fn held(&self) -> Vec<String>;
    /// How many dead letters were left out because other operations hold them.
    fn held_count(&self) -> u64;
    /// Its progress as text.
    fn progress(&self) -> String;
}

impl OperationText for Operation {
    fn is_replay(&self) -> bool {
        self.kind == OperationKind::Replay
    }

    fn name(&self) -> String {
        format!("{} {}", self.kind, self.id)
    }

    fn is_over(&self) -> bool {
        use OperationState::{Cancelled, Ended, Stopped};
        matches!(self.state, Ended | Stopped | Cancelled)
    }

    fn is_canary(&self) -> bool {
        let canary = self.canary.unwrap_or_default();
        canary > 0
            && canary < self.total
            && self.processed <= canary
            && self.completed.unwrap_or_default() < canary
    }

    fn held(&self) -> Vec<String> {
        let line = |holder: &Holder| {
            let are = if holder.count == 1 { "is" } else { "are" };
            let letters = plural(holder.count, "dead letter");
            format!("{letters} {are} not included: held by operation {}", holder.operation)
        };
        self.held.iter().map(line).collect()
    }

    fn held_count(&self) -> u64 {
        self.held.iter().map(|holder| holder.count).sum()
    }

    fn progress(&self) -> String {
        let Some((completed, failed)) = self.completed.zip(self.failed) else {
            return format!("{} of {} discarded", count(self.processed), count(self.total));
        };
        let sent = format!("{} of {} sent", count(self.processed), plural(self.total, "message"));
        let in_flight = count(self.in_flight.unwrap_or_default());
        let (completed, failed) = (count(completed), count(failed));
        let waiting = waiting(self).unwrap_or_default();
        format!(
            "{sent}, {completed} completed, {failed} failed again, {in_flight} in flight{waiting}"
        )
    }
}

fn waiting(operation: &Operation) -> Option<String> {
    let waited = Duration::try_from_secs_f64(operation.canary_waiting_seconds?).ok()?;
    Some(format!(", waiting for the canary for {}", humanize::age(waited)))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A replay of ten with a canary of three.
    pub(crate) fn replay([done, completed, failed]: [u64; 3]) -> Value {
        json!({
            "id": "op_209aaw0b", "kind": "replay", "state": "running", "actor": "ada", "reason": "fixed",
            "planned_at": "2026-11-14T09:00:00Z", "ended_at": null, "stop_reason": null,
            "total": 10, "refused": 0, "processed": done, "queues": [{ "queue": "lab", "count": 10 }],
            "completed": completed, "failed": failed, "in_flight": done - completed - failed,
            "canary": 3, "rate": null, "stop_after": null, "new_ids": false,
        })
    }

    fn operation(counts: [u64; 3]) -> Operation {
        serde_json::from_value(replay(counts)).unwrap()
    }

    #[test]
    fn the_canary_phase_follows_from_the_counts() {
        for (counts, expected) in
            [([0, 0, 0], true), ([3, 2, 0], true), ([3, 3, 0], false), ([9, 4, 1], false)]
        {
            assert_eq!(operation(counts).is_canary(), expected, "{counts:?}");
        }
    }

    #[test]
    fn holders_of_dead_letters_are_named() {
        let mut held = replay([0, 0, 0]);
        held["refused"] = 4.into();
        held["held"] = json!([{ "operation": "op_y0ppfhjp", "count": 1 }, { "operation": "op_77ncnddj", "count": 2 }]);
        let held: Operation = serde_json::from_value(held).unwrap();
        let expected = [
            "1 dead letter is not included: held by operation op_y0ppfhjp",
            "2 dead letters are not included: held by operation op_77ncnddj",
        ];
        assert_eq!((held.held(), held.held_count()), (expected.map(str::to_owned).to_vec(), 3));
    }

    #[test]
    fn progress_is_printed_as_text() {
        let expected = "9 of 10 messages sent, 4 completed, 1 failed again, 4 in flight";
        assert_eq!(operation([9, 4, 1]).progress(), expected);
        let waiting = Operation { canary_waiting_seconds: Some(75.0), ..operation([3, 2, 0]) };
        let expected = "3 of 10 messages sent, 2 completed, 0 failed again, 1 in flight, waiting for the canary for 1 m";
        assert_eq!(waiting.progress(), expected);
        let discard =
            Operation { kind: OperationKind::Discard, completed: None, ..operation([9, 4, 1]) };
        assert_eq!(discard.progress(), "9 of 10 discarded");
        assert_eq!(discard.name(), "discard op_209aaw0b");
    }
}
