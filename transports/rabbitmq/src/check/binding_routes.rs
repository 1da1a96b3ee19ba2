//! Which queues and exchanges a binding leads to, as the broker would route (pure).

use serde_json::Value;

/// Whether a binding matches a routing key. Bindings of a headers exchange count as matching: it depends on the message.
pub(crate) fn leads(exchange_kind: &str, pattern: &str, key: &str) -> bool {
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

/// The destination of a binding.
pub(crate) enum BindingTarget {
    Queue(String),
    Exchange(String),
}

/// The destinations of the bindings that match a key.
pub(crate) fn targets(exchange_kind: &str, bindings: &[Value], key: &str) -> Vec<BindingTarget> {
    let text = |binding: &Value, name: &str| binding[name].as_str().unwrap_or_default().to_owned();
    let led =
        bindings.iter().filter(|binding| leads(exchange_kind, &text(binding, "routing_key"), key));
    led.map(|binding| match binding["destination_type"].as_str() {
        Some("exchange") => BindingTarget::Exchange(text(binding, "destination")),
        _ => BindingTarget::Queue(text(binding, "destination")),
    })
    .collect()
}

#[cfg(test)]
mod tests {
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
}
