//! Which queues and exchanges the bindings of an exchange lead to, as the broker would route (pure).

use std::collections::HashMap;

use serde_json::Value;

/// The destination of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BindingTarget {
    Queue(String),
    Exchange(String),
}

/// The bindings from one exchange, as the management API lists them. An exchange that all queues share has thousands, and
/// is asked for each of them: so they are found by their key.
#[derive(Debug, Default)]
pub(crate) struct ExchangeBindings(HashMap<String, Vec<BindingTarget>>);

impl ExchangeBindings {
    /// Whether a queue is bound with this routing key.
    pub(crate) fn has(&self, queue: &str, key: &str) -> bool {
        let is_queue =
            |it: &BindingTarget| matches!(it, BindingTarget::Queue(name) if name == queue);
        self.0.get(key).is_some_and(|targets| targets.iter().any(is_queue))
    }

    /// Where an exchange of this kind routes a key.
    pub(crate) fn targets(&self, exchange_kind: &str, key: &str) -> Vec<BindingTarget> {
        if exchange_kind == "direct" {
            return self.0.get(key).cloned().unwrap_or_default();
        }
        let led = self.0.iter().filter(|(pattern, _)| leads(exchange_kind, pattern, key));
        led.flat_map(|(_, targets)| targets.iter().cloned()).collect()
    }

    /// Adds a binding.
    pub(crate) fn add(&mut self, binding: &Value) {
        let text = |name: &str| binding[name].as_str().unwrap_or_default().to_owned();
        let target = match binding["destination_type"].as_str() {
            Some("exchange") => BindingTarget::Exchange(text("destination")),
            _ => BindingTarget::Queue(text("destination")),
        };
        self.0.entry(text("routing_key")).or_default().push(target);
    }
}

impl<'a> FromIterator<&'a Value> for ExchangeBindings {
    fn from_iter<T: IntoIterator<Item = &'a Value>>(bindings: T) -> Self {
        let mut all = Self::default();
        bindings.into_iter().for_each(|binding| all.add(binding));
        all
    }
}

/// Whether a binding matches a routing key. Bindings of a headers exchange count as matching: it depends on the message.
fn leads(exchange_kind: &str, pattern: &str, key: &str) -> bool {
    match exchange_kind {
        "direct" => pattern == key,
        "topic" => matches(pattern, key),
        _ => true,
    }
}

/// Word by word: `taken[n]` says whether the pattern so far can match the first `n` words of the key.
fn matches(pattern: &str, key: &str) -> bool {
    let key: Vec<_> = key.split('.').collect();
    let mut taken = vec![false; key.len() + 1];
    taken[0] = true;
    for word in pattern.split('.') {
        let mut next = vec![false; key.len() + 1];
        for at in 0..=key.len() {
            next[at] = match word {
                "#" => taken[at] || at > 0 && next[at - 1],
                _ => at > 0 && taken[at - 1] && (word == "*" || word == key[at - 1]),
            };
        }
        taken = next;
    }
    taken[key.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_topic_is_matched_word_by_word() {
        for (pattern, key, led) in [
            ("new.#", "new", true),
            ("new.#", "new.eu.west", true),
            ("*.eu", "new.eu", true),
            ("*.eu", "eu", false),
            ("#.eu.#", "a.b.eu.c", true),
            ("new.*", "new", false),
            ("#", "", true),
        ] {
            assert_eq!(leads("topic", pattern, key), led, "{pattern} {key}");
        }
        assert!(leads("fanout", "x", "y") && !leads("direct", "x", "y"));
    }

    #[test]
    fn bindings_lead_to_the_queues_and_exchanges_of_matching_keys() {
        let binding = |kind: &str, to: &str, key: &str| json!({ "destination_type": kind, "destination": to, "routing_key": key });
        let all = [
            binding("queue", "eu", "new.eu"),
            binding("queue", "all", "#"),
            binding("exchange", "onward", "new.eu"),
        ];
        let bindings: ExchangeBindings = all.iter().collect();
        let direct = bindings.targets("direct", "new.eu");
        let (queue, exchange) =
            (BindingTarget::Queue("eu".into()), BindingTarget::Exchange("onward".into()));
        assert_eq!(direct, [queue, exchange]);
        assert_eq!(bindings.targets("topic", "new.eu").len(), 3);
        assert_eq!(bindings.targets("topic", "old"), [BindingTarget::Queue("all".into())]);
        assert!(bindings.has("eu", "new.eu") && !bindings.has("onward", "new.eu"));
    }
}
