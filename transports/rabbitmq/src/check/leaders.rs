//! Whether the nodes of a cluster lead about as many quorum queues each (pure).
//!
//! A queue's leader does most of its work. Our queues are created in balance (`x-queue-leader-locator`), but RabbitMQ moves
//! a leader when its node is lost, and not back: after a restart of its nodes one after the other, a cluster has a node
//! that leads nothing.

use bezoar_core::{Finding, Severity};
use serde_json::Value;

use crate::check::findings::finding;

/// How many times its share a node may lead.
const MOST_SHARES: f64 = 1.5;

/// A note if one node leads much more than its share of `queues`.
pub(crate) fn imbalance(nodes: &Value, queues: &[Value]) -> Option<Finding> {
    let running = nodes.as_array()?.iter().filter(|node| node["running"] == true);
    let names: Vec<&str> = running.filter_map(|node| node["name"].as_str()).collect();
    let leads = |name: &str| queues.iter().filter(|queue| queue["leader"] == name).count();
    let (most, busiest) = names.iter().map(|name| (leads(name), *name)).max()?;
    let all: usize = names.iter().map(|name| leads(name)).sum();
    let share = all as f64 / names.len() as f64;
    // Of a few queues no even distribution is possible.
    if names.len() < 2 || all < 4 * names.len() || most as f64 <= share * MOST_SHARES {
        return None;
    }
    let problem = format!(
        "node {busiest:?} leads {most} of {all} delay queues in a cluster of {} nodes, and does most of their work",
        names.len()
    );
    let remedy = "run `rabbitmq-queues rebalance quorum` on a node";
    Some(finding(Severity::Note, problem, remedy))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(leads: [usize; 3]) -> Option<String> {
        let names = ["a", "b", "c"];
        let node = |name| json!({ "name": name, "running": true });
        let nodes = Value::from(names.map(node).to_vec());
        let queues = names
            .iter()
            .zip(leads)
            .flat_map(|(name, count)| std::iter::repeat_n(json!({ "leader": name }), count));
        imbalance(&nodes, &queues.collect::<Vec<_>>()).map(|found| found.problem)
    }

    #[test]
    fn a_node_that_leads_far_more_than_its_share_is_named() {
        assert_eq!(check([22, 21, 21]), None);
        assert_eq!(check([31, 24, 12]), None, "elections are random");
        let found = check([18, 7, 42]).unwrap();
        assert!(found.starts_with(r#"node "c" leads 42 of 67 delay queues"#), "{found}");
        assert_eq!(check([2, 0, 0]), None, "too few to distribute");
    }

    #[test]
    fn a_single_node_leads_everything() {
        let queues = vec![json!({ "leader": "a" }); 64];
        assert!(imbalance(&json!([{ "name": "a", "running": true }]), &queues).is_none());
        let down = json!([{ "name": "a", "running": true }, { "name": "b", "running": false }]);
        assert!(imbalance(&down, &queues).is_none(), "a node that is down cannot lead");
    }
}
