//! `retry`: whether and when failed messages are retried.

use std::time::Duration;

use bezoar::{Backoff, Jitter, RetryPolicy};

use crate::config::{
    InvalidValue, names,
    reader::{Section, SectionReader},
    tree::{Node, Value},
    values::Parsed,
};

/// The presets, by the names that are accepted.
pub(in crate::config) const PRESETS: &[&str] =
    &["jobs", "poison_queue", "outbox", "webhook", "broker"];

/// Reads the `retry` of a route: the name of a preset, or a table whose keys override those of a preset.
pub(super) fn read(reader: &mut SectionReader<'_>, route: &Section<'_>) -> Option<RetryPolicy> {
    match route.node("retry") {
        Some(node) if is_text(node) => preset(reader, route, "retry"),
        _ => {
            let section = route.table("retry");
            let base = match section.has("preset") {
                true => preset(reader, &section, "preset")?,
                false => RetryPolicy::default(),
            };
            table(reader, &section, base)
        }
    }
}

fn is_text(node: &Node) -> bool {
    matches!(node.value, Value::Text(_))
}

/// The preset in the key `name` of a section.
fn preset(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    name: &str,
) -> Option<RetryPolicy> {
    let Node { value: Value::Text(preset), origin, .. } = section.node(name)? else { return None };
    match find(preset) {
        Ok(policy) => {
            reader.show(&section.path.key(name), preset.clone(), origin);
            Some(policy)
        }
        Err(invalid) => {
            reader.refuse(section, name, invalid);
            None
        }
    }
}

fn find(name: &str) -> Result<RetryPolicy, InvalidValue> {
    let found = RetryPolicy::PRESETS.iter().find(|(preset, _)| *preset == name);
    found.map(|(_, policy)| *policy).ok_or_else(|| names::no_choice(name, PRESETS))
}

/// The policy `base`, with the keys that were set overriding its values.
fn table(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    base: RetryPolicy,
) -> Option<RetryPolicy> {
    let (first, multiplier) = exponential(&base);
    let max_retries = reader.or(section, "max_retries", base.max_retries());
    let first: Duration = reader.or(section, "first", first);
    let multiplier = reader.or(section, "multiplier", multiplier);
    let max: Duration = reader.or(section, "max", base.cap());
    let jitter: f64 = reader.or(section, "jitter", factor(base.jitter()));
    if first > max {
        let problem = format!("is {}, more than max ({})", first.shown(), max.shown());
        reader.refuse(section, "first", InvalidValue::new(problem, "raise max or lower first"));
        return None;
    }
    let jitter = match base.jitter() {
        _ if jitter <= 0.0 => Jitter::None,
        Jitter::Lengthening(_) => Jitter::Lengthening(jitter),
        _ => Jitter::Symmetric(jitter),
    };
    let backoff = Backoff::Exponential { first, multiplier };
    RetryPolicy::new(max_retries, backoff, max, jitter)
        .and_then(|policy| policy.with_immediate_retries(base.immediate_retries()))
        .map_err(|invalid| {
            let invalid = InvalidValue::new(invalid.to_string(), "set another value");
            reader.refuse(section, "max", invalid);
        })
        .ok()
}

fn exponential(base: &RetryPolicy) -> (Duration, f64) {
    match base.backoff() {
        Backoff::Exponential { first, multiplier } => (first, multiplier),
        _ => (base.delays().next().unwrap_or_default(), 1.0),
    }
}

fn factor(jitter: Jitter) -> f64 {
    match jitter {
        Jitter::None => 0.0,
        Jitter::Symmetric(most) | Jitter::Lengthening(most) => most,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_their_names() {
        assert_eq!(RetryPolicy::PRESETS.map(|(name, _)| name), PRESETS);
        assert_eq!(find("webhook").unwrap(), RetryPolicy::webhook());
        assert!(find("webhok").unwrap_err().remedy.contains("webhook"));
    }

    #[test]
    fn every_preset_can_be_written_as_a_table() {
        for (name, policy) in RetryPolicy::PRESETS {
            assert!(matches!(policy.backoff(), Backoff::Exponential { .. }), "{name}");
            assert!(!matches!(policy.jitter(), Jitter::Full), "{name}");
        }
    }
}
