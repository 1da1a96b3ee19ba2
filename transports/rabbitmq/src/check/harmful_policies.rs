//! Policies that harm the queues of delayed messages (pure).
//!
//! These queues must take every message, and keep it for as long as it waits. A policy for all queues of a virtual host
//! applies to them, too: the broker adds its limits to our arguments, and of two numbers uses the lower one.

use bezoar_core::{Finding, Severity};
use serde_json::Value;

use crate::{
    check::findings::{DescribedQueue, QueueRole, finding},
    topology::{Queue, plan::plain},
};

/// Settings by which these queues refuse, lose or release messages.
const HARM: [(&str, &str); 4] = [
    ("expires", "may be deleted together with the retries in it"),
    ("message-ttl", "may end delays too early, or lose messages"),
    ("max-length", "may be full: then retries of all queues are held up, or lost"),
    ("max-length-bytes", "may be full: then retries of all queues are held up, or lost"),
];

/// An error for each setting that is in effect and that `wanted` does not ask for; `seen` are these queues, as the management
/// API describes them. A policy usually applies to all of them, which is one finding.
pub(crate) fn harmful_policies(wanted: &[Queue], seen: &[Value]) -> Vec<Finding> {
    let harm = |(key, effect): (&str, &str)| {
        let harmed = wanted.iter().filter_map(|Queue { name, arguments }| {
            let seen = seen.iter().find(|it| it["name"] == name.as_str())?;
            let described = DescribedQueue::new(name, QueueRole::Dead, seen);
            let expected = arguments.inner().get(format!("x-{key}").as_str()).map(plain);
            let setting = described.effective(key).filter(|it| expected.as_ref() != Some(it))?;
            Some((name, format!("{} is {setting}", described.says(key))))
        });
        let mut harmed = harmed.collect::<Vec<_>>().into_iter();
        let (name, setting) = harmed.next()?;
        let others = match harmed.len() {
            0 => String::new(),
            others => format!(", like {others} other queues for delayed messages,"),
        };
        let problem = format!("queue {name:?}{others} {effect}: {setting}");
        let remedy = format!(
            "keep policies with {key} from queues whose names begin with `bezoar.`; a pattern such as \
             `^(?!bezoar\\.)` leaves them out"
        );
        Some(finding(Severity::Error, problem, remedy))
    };
    HARM.into_iter().filter_map(harm).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Options, Topology};

    /// What is found if a policy applies to all queues, or only to some.
    fn check(policy: &Value, applies: impl Fn(&str) -> bool) -> Vec<String> {
        let wanted = Topology::of_delays(&Options::from_url("amqp://localhost").unwrap()).queues;
        let describe = |queue: &Queue| {
            let arguments = queue.arguments.inner().iter();
            let arguments = arguments.map(|(name, value)| (name.to_string(), plain(value)));
            let policy = if applies(&queue.name) { policy.clone() } else { json!({}) };
            json!({
                "name": queue.name, "policy": "p", "effective_policy_definition": policy,
                "arguments": Value::Object(arguments.collect()),
            })
        };
        let seen: Vec<_> = wanted.iter().map(describe).collect();
        harmful_policies(&wanted, &seen).into_iter().map(|it| it.problem).collect()
    }

    #[test]
    fn limits_are_named_once_for_all_queues() {
        let found = check(&json!({ "max-length": 5, "expires": 1000 }), |_| true);
        assert_eq!(
            found,
            [
                "queue \"bezoar.unroutable\", like 49 other queues for delayed messages, may be deleted together with the \
                 retries in it: policy \"p\" with expires is 1000",
                "queue \"bezoar.unroutable\", like 49 other queues for delayed messages, may be full: then retries of all \
                 queues are held up, or lost: policy \"p\" with max-length is 5",
            ]
        );
    }

    #[test]
    fn only_a_shorter_time_to_live_is_harmful() {
        let of = |millis: u64, name: &'static str| {
            check(&json!({ "message-ttl": millis }), move |it| it == name)
        };
        assert_eq!(of(26, "bezoar.delay.0.1"), [""; 0], "the queue's own is 25 ms");
        let found = of(24, "bezoar.delay.0.1");
        let [found] = &found[..] else { panic!("{found:?}") };
        assert!(
            found.starts_with("queue \"bezoar.delay.0.1\" may end delays too early"),
            "{found}"
        );
        assert_eq!(of(u64::from(u32::MAX), "bezoar.unroutable").len(), 1, "it has none");
    }

    #[test]
    fn other_policies_do_no_harm() {
        assert_eq!(
            check(&json!({ "delivery-limit": 5, "overflow": "drop-head" }), |_| true),
            [""; 0]
        );
    }
}
