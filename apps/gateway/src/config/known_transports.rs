//! Checks that the transports of queues are configured.
//!
//! It looks at what is written, not at what was read: a route with another mistake is not read, and a transport with one
//! is not unknown. So its problems are reported together with all others.

use super::{ConfigProblem, InvalidValue, reader::Section, suggest::nearest, tree::Value};

/// Where queues are named.
const QUEUES: [(&str, &str); 3] = [("route", "from"), ("queue", "name"), ("poison_retry", "queue")];

/// Reports queues such as `hospital/results` without a transport `hospital`.
pub(super) fn check(root: &Section<'_>, problems: &mut Vec<ConfigProblem>) {
    let written = root.table("transports");
    if root.has("transports") && written.content().is_none() {
        return; // what is written there is refused as a whole
    }
    let known: Vec<_> =
        written.content().into_iter().flat_map(|table| table.keys()).map(String::as_str).collect();
    for (list, key) in QUEUES {
        for section in root.tables(list) {
            let Some(node) = section.node(key) else { continue };
            let Value::Text(queue) = &node.value else { continue };
            if let Some((name, _)) = queue.split_once('/').filter(|(name, _)| !known.contains(name))
            {
                let invalid = unknown(queue, name, &known);
                problems.push(ConfigProblem::new(
                    section.path.key(key),
                    node.origin.clone(),
                    invalid,
                ));
            }
        }
    }
}

fn unknown(queue: &str, name: &str, known: &[&str]) -> InvalidValue {
    let remedy = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("add [transports.{name}] with its url"),
    };
    InvalidValue::new(format!("is {queue}, but there is no transport {name}"), remedy)
}
