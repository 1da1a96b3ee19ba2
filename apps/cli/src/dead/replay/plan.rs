//! A frozen selection in words, for somebody who decides.

use super::super::operation::{Operation, Share};
use crate::humanize::{count, plural};

/// How many queues are named.
const QUEUES: usize = 20;

/// What would happen.
pub(super) fn describe(plan: &Operation) -> Vec<String> {
    let total = plural(plan.total, "message");
    let mut lines = vec![format!(
        "{} is planned: {total}, chosen now; what dies later takes no part",
        plan.name()
    )];
    lines.extend(queues(plan));
    if plan.refused > 0 {
        lines.push(refused(plan.refused));
    }
    lines.push(ids(plan).to_owned());
    lines.extend(limits(plan));
    lines
}

fn queues(plan: &Operation) -> Vec<String> {
    let named = plan.queues.iter().take(QUEUES);
    let line = |share: &Share| format!("  {} to {}", count(share.count), share.queue);
    let mut lines: Vec<_> = named.map(line).collect();
    if let Some(more) = plan.queues.len().checked_sub(QUEUES).filter(|more| *more > 0) {
        lines.push(format!("  … and to {} more", plural(more as u64, "queue")));
    }
    lines
}

/// Why some cannot take part.
pub(super) fn refused(number: u64) -> String {
    let takes = if number == 1 { "takes" } else { "take" };
    format!(
        "{} {takes} no part: already in another replay or discard, replaced by an edited version, or an edited \
         version that waits for approval",
        plural(number, "dead letter")
    )
}

/// What a receiver makes of them.
fn ids(plan: &Operation) -> &'static str {
    match plan.new_ids {
        Some(true) => {
            "they get new ids: a receiver that deduplicates takes them for new messages, and does again what it \
             may have done before"
        }
        _ => {
            "they keep their ids: a receiver that deduplicates passes over what it has done before; if it also \
             passes over what it failed at, use --new-ids"
        }
    }
}

fn limits(plan: &Operation) -> Vec<String> {
    let canary = plan.canary.filter(|canary| *canary > 0);
    let canary = canary.map(|canary| {
        format!("{} go first, the rest only if all of those complete", count(canary))
    });
    let speed = plan.rate.map(|speed| format!("at most {speed} a second"));
    let most = plan.stop_after.map(|most| format!("stops when {} failed again", count(most)));
    [canary, speed, most].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{super::super::operation::tests::replay, *};

    #[test]
    fn a_plan_says_what_would_happen() {
        let mut plan = replay([0, 0, 0]);
        plan["refused"] = 2.into();
        plan["rate"] = 20.0.into();
        plan["stop_after"] = 5.into();
        let lines = describe(&serde_json::from_value(plan).unwrap());
        let expected = [
            "replay 7 is planned: 10 messages, chosen now; what dies later takes no part",
            "  10 to lab",
            "2 dead letters take no part: already in another replay",
            "they keep their ids: a receiver that deduplicates passes over",
            "3 go first, the rest only if all of those complete",
            "at most 20 a second",
            "stops when 5 failed again",
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(expected) {
            assert!(line.starts_with(start), "{line:?} does not start with {start:?}");
        }
    }
}
