//! Describes a planned replay, for the person who confirms it.

use bezoar_gateway::api_types::QueueShare;

use super::super::operation::{Operation, OperationText};
use crate::humanize::{count, plural};

/// How many queues are listed.
const QUEUES: usize = 20;

/// Describes the plan, one line each.
pub(super) fn describe(plan: &Operation) -> Vec<String> {
    let total = plural(plan.total, "message");
    let mut lines = vec![format!(
        "planned {}: {total}; messages that are dead-lettered later are not included",
        plan.name()
    )];
    lines.extend(queues(plan));
    lines.extend(left_out(plan));
    lines.push(ids(plan).to_owned());
    lines.extend(limits(plan));
    lines
}

fn queues(plan: &Operation) -> Vec<String> {
    let named = plan.queues.iter().take(QUEUES);
    let line = |share: &QueueShare| format!("  {} to {}", count(share.count), share.queue);
    let mut lines: Vec<_> = named.map(line).collect();
    if let Some(more) = plan.queues.len().checked_sub(QUEUES).filter(|more| *more > 0) {
        lines.push(format!("  … and {} more", plural(more as u64, "queue")));
    }
    lines
}

/// Why some dead letters are not selected, one line for each reason.
pub(super) fn left_out(plan: &Operation) -> Vec<String> {
    let mut lines = plan.held();
    let others = plan.refused.saturating_sub(plan.held_count());
    if others > 0 {
        let are = if others == 1 { "is" } else { "are" };
        lines.push(format!(
            "{} {are} not included: replaced by an edited version, waiting for approval, or removed in the meantime",
            plural(others, "dead letter")
        ));
    }
    lines
}

/// What new or unchanged ids mean for receivers.
fn ids(plan: &Operation) -> &'static str {
    match plan.new_ids {
        Some(true) => {
            "message ids: new; a receiver that deduplicates treats them as new messages and may repeat work it has \
             already done"
        }
        _ => {
            "message ids: unchanged; a receiver that deduplicates skips messages it has already processed; if it \
             also skips messages that failed, use --new-ids"
        }
    }
}

/// A warning if the canary leaves nothing to continue with.
pub(super) fn canary(plan: &Operation) -> Option<String> {
    let covers_all = plan.total > 0 && plan.canary.is_some_and(|canary| canary >= plan.total);
    covers_all.then(|| "warning: the canary covers the whole selection".to_owned())
}

fn limits(plan: &Operation) -> Vec<String> {
    let partial = plan.canary.filter(|canary| *canary > 0 && *canary < plan.total);
    let partial = partial.map(|canary| {
        format!("canary: replays {} first and continues only if all of them succeed", count(canary))
    });
    let speed = plan.rate.map(|speed| format!("rate: at most {speed} per second"));
    let most = plan.stop_after.map(|most| format!("stops after {} failures", count(most)));
    [partial, canary(plan), speed, most].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{super::super::operation::tests::replay, *};

    #[test]
    fn a_plan_is_described() {
        let mut plan = replay([0, 0, 0]);
        plan["refused"] = 2.into();
        plan["held"] = serde_json::json!([{ "operation": "op_y0ppfhjp", "count": 1 }]);
        plan["rate"] = 20.0.into();
        plan["stop_after"] = 5.into();
        let lines = describe(&serde_json::from_value(plan).unwrap());
        let expected = [
            "planned replay op_209aaw0b: 10 messages; messages that are dead-lettered later are not included",
            "  10 to lab",
            "1 dead letter is not included: held by operation op_y0ppfhjp",
            "1 dead letter is not included: replaced by an edited version",
            "message ids: unchanged; a receiver that deduplicates skips",
            "canary: replays 3 first and continues only if all of them succeed",
            "rate: at most 20 per second",
            "stops after 5 failures",
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(expected) {
            assert!(line.starts_with(start), "{line:?} does not start with {start:?}");
        }
    }
}
