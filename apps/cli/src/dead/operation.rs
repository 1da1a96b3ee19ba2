//! A replay or discard as the gateway's API returns it.

use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    humanize::{self, count, plural},
};

#[derive(Debug, Deserialize)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) who: String,
    pub(super) reason: String,
    pub(super) planned_at: String,
    pub(super) stopped: Option<String>,
    /// How many dead letters are selected.
    pub(super) total: u64,
    /// How many were requested and could not be selected.
    pub(super) refused: u64,
    /// Of those, how many other operations held when this one was planned.
    #[serde(default)]
    pub(super) held: Vec<Holder>,
    /// How many were sent or discarded so far.
    pub(super) done: u64,
    #[serde(default)]
    pub(super) queues: Vec<Share>,
    /// Replays only, as are all the following.
    pub(super) completed: Option<u64>,
    pub(super) failed: Option<u64>,
    pub(super) in_flight: Option<u64>,
    pub(super) canary: Option<u64>,
    pub(super) rate: Option<f64>,
    pub(super) stop_after: Option<u64>,
    pub(super) new_ids: Option<bool>,
    /// How long the rest has been waiting for the outcome of the canary.
    #[serde(default)]
    pub(super) canary_waiting_seconds: Option<f64>,
}

/// The number of dead letters of one queue.
#[derive(Debug, Deserialize)]
pub(super) struct Share {
    pub(super) queue: String,
    pub(super) count: u64,
}

/// Another operation that holds selected dead letters.
#[derive(Debug, Deserialize)]
pub(super) struct Holder {
    pub(super) operation: String,
    pub(super) count: u64,
}

/// A command for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationCommand {
    Run,
    Pause,
    Cancel,
}

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
    order: OperationCommand,
    reason: &str,
) -> Result<OperationReply, ClientError> {
    let word = match order {
        OperationCommand::Run => "run",
        OperationCommand::Pause => "pause",
        OperationCommand::Cancel => "cancel",
    };
    let order = json!({ "order": word, "reason": reason });
    client.order(&path(["v1", "replays", id]), &order).await.and_then(OperationReply::new)
}

impl Operation {
    /// `replay` or `discard`; a discard has no outcomes.
    pub(super) fn noun(&self) -> &'static str {
        if self.completed.is_some() { "replay" } else { "discard" }
    }

    pub(super) fn is_replay(&self) -> bool {
        self.completed.is_some()
    }

    /// `replay op_209aaw0b`
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.noun(), self.id)
    }

    /// Whether it has ended, or is stopped until somebody resumes it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "ended" | "stopped" | "cancelled")
    }

    /// Whether the canary is still running.
    pub(super) fn is_canary(&self) -> bool {
        let canary = self.canary.unwrap_or_default();
        canary > 0
            && canary < self.total
            && self.done <= canary
            && self.completed.unwrap_or_default() < canary
    }

    /// Which other operations hold dead letters that were left out, one line each.
    pub(super) fn held(&self) -> Vec<String> {
        let line = |holder: &Holder| {
            let are = if holder.count == 1 { "is" } else { "are" };
            let letters = plural(holder.count, "dead letter");
            format!("{letters} {are} not included: held by operation {}", holder.operation)
        };
        self.held.iter().map(line).collect()
    }

    /// How many dead letters were left out because other operations hold them.
    pub(super) fn held_count(&self) -> u64 {
        self.held.iter().map(|holder| holder.count).sum()
    }

    /// Its progress as text.
    pub(super) fn progress(&self) -> String {
        let Some((completed, failed)) = self.completed.zip(self.failed) else {
            return format!("{} of {} discarded", count(self.done), count(self.total));
        };
        let sent = format!("{} of {} sent", count(self.done), plural(self.total, "message"));
        let in_flight = count(self.in_flight.unwrap_or_default());
        let (completed, failed) = (count(completed), count(failed));
        let waiting = self.waiting().unwrap_or_default();
        format!(
            "{sent}, {completed} completed, {failed} failed again, {in_flight} in flight{waiting}"
        )
    }

    fn waiting(&self) -> Option<String> {
        let waited = Duration::try_from_secs_f64(self.canary_waiting_seconds?).ok()?;
        Some(format!(", waiting for the canary for {}", humanize::age(waited)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;

    /// A replay of ten with a canary of three.
    pub(crate) fn replay([done, completed, failed]: [u64; 3]) -> Value {
        json!({
            "id": "op_209aaw0b", "state": "running", "who": "ada", "reason": "fixed",
            "planned_at": "2026-11-14T09:00:00Z", "ended_at": null, "stopped": null,
            "total": 10, "refused": 0, "done": done, "queues": [{ "queue": "lab", "count": 10 }],
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
        let discard = Operation { completed: None, ..operation([9, 4, 1]) };
        assert_eq!(discard.progress(), "9 of 10 discarded");
        assert_eq!(discard.name(), "discard op_209aaw0b");
    }
}
