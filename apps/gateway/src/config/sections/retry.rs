//! `retry`: when a failed message is tried again.

use std::time::Duration;

use bezoar::{Backoff, Jitter, RetryPolicy};

use crate::config::{
    InvalidValue, names,
    reader::{Section, SectionReader},
    tree::{Node, Value},
    values::Parsed,
};

type Preset = (&'static str, RetryPolicy);

const PRESETS: [Preset; 4] = [
    ("jobs", RetryPolicy::jobs()),
    ("poison_queue", RetryPolicy::poison_queue()),
    ("outbox", RetryPolicy::outbox()),
    ("webhook", RetryPolicy::webhook()),
];
const NAMES: &[&str] = &["jobs", "poison_queue", "outbox", "webhook"];

/// Reads the `retry` of a route: the name of a preset, or a table.
pub(super) fn read(reader: &mut SectionReader<'_>, route: &Section<'_>) -> Option<RetryPolicy> {
    match route.node("retry") {
        Some(Node { value: Value::Text(name), origin, .. }) => match preset(name) {
            Ok(policy) => {
                reader.show(&route.path.key("retry"), name.clone(), origin);
                Some(policy)
            }
            Err(invalid) => {
                reader.refuse(route, "retry", invalid);
                None
            }
        },
        _ => table(reader, &route.table("retry")),
    }
}

fn preset(name: &str) -> Result<RetryPolicy, InvalidValue> {
    let found = PRESETS.iter().find(|(preset, _)| *preset == name);
    found.map(|(_, policy)| *policy).ok_or_else(|| names::no_choice(name, NAMES))
}

fn table(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<RetryPolicy> {
    let max_retries = reader.or_default(section, "max_retries");
    let first: Duration = reader.or_default(section, "first");
    let multiplier = reader.or_default(section, "multiplier");
    let max: Duration = reader.or_default(section, "max");
    let jitter: f64 = reader.or_default(section, "jitter");
    if first > max {
        let problem = format!("is {}, above max, which is {}", first.shown(), max.shown());
        reader.refuse(section, "first", InvalidValue::new(problem, "raise max or lower first"));
        return None;
    }
    let jitter = if jitter > 0.0 { Jitter::Symmetric(jitter) } else { Jitter::None };
    let policy =
        RetryPolicy::new(max_retries, Backoff::Exponential { first, multiplier }, max, jitter);
    policy
        .map_err(|invalid| {
            let invalid = InvalidValue::new(invalid.to_string(), "set another value");
            reader.refuse(section, "max", invalid);
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_their_names() {
        assert_eq!(PRESETS.map(|(name, _)| name), NAMES);
        assert_eq!(preset("webhook").unwrap(), RetryPolicy::webhook());
        assert!(preset("webhok").unwrap_err().remedy.contains("webhook"));
    }
}
