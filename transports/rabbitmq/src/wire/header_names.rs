//! The names of headers that have a meaning for us or for the broker.

pub(super) const OURS: &str = "bezoar-";
pub(super) const ID: &str = "bezoar-id";
pub(super) const BINDING: &str = "bezoar-binding";
pub(super) const TIME: &str = "bezoar-time";
pub(super) const EXPIRES_AT: &str = "bezoar-expires-at";
pub(super) const CAUSATION_ID: &str = "bezoar-causation-id";
pub(super) const HEADERS: &str = "bezoar-headers";
pub(super) const ACQUIRED: &str = "bezoar-acquired";
pub(super) const FAILED: &str = "bezoar-failed";
pub(super) const RELEASED: &str = "bezoar-released";
pub(super) const REPLAYED: &str = "bezoar-replayed";
pub(super) const REPLAY: &str = "bezoar-replay";
pub(super) const TIMEOUTS: &str = "bezoar-timeouts";
pub(super) const UNCOUNTED: &str = "bezoar-uncounted";
pub(super) const HISTORY: &str = "bezoar-history";
pub(super) const DROPPED: &str = "bezoar-dropped-headers";
pub(super) const EXCHANGE: &str = "bezoar-exchange";
pub(super) const ROUTING_KEY: &str = "bezoar-routing-key";
pub(super) const VHOST: &str = "bezoar-vhost";
pub(super) const QUEUE: &str = "bezoar-queue";
pub(super) const DUE: &str = "bezoar-due";
pub(super) const EXPIRATION: &str = "bezoar-expiration";
pub(super) const USER_ID: &str = "bezoar-user-id";
pub(super) const DEAD_ID: &str = "bezoar-dead-id";
pub(super) const DEAD_AT: &str = "bezoar-dead-at";
pub(super) const REASON_CODE: &str = "bezoar-reason-code";
pub(super) const REASON: &str = "bezoar-reason";

/// The header of a message that is a property on the wire: how the body is compressed.
pub(super) const CONTENT_ENCODING: &str = "content-encoding";

/// Headers that are written anew each time a message is republished.
pub(super) const RENEWED: &[&str] = &[
    QUEUE,
    DUE,
    BINDING,
    ACQUIRED,
    FAILED,
    RELEASED,
    REPLAYED,
    REPLAY,
    TIMEOUTS,
    UNCOUNTED,
    HISTORY,
    DEAD_ID,
    DEAD_AT,
    REASON_CODE,
    REASON,
];
/// Headers that only we add to a message, and that are ignored on any other; see `binding.rs`.
pub(super) fn is_bound(name: &str) -> bool {
    RENEWED.contains(&name)
        || matches!(name, ID | DROPPED | EXCHANGE | ROUTING_KEY | EXPIRATION | USER_ID)
}

/// Headers that make the broker send copies elsewhere.
pub(super) const COPIES: &[&str] = &["CC", "BCC"];

/// Names with a meaning for the broker or for us. Headers of a sender with such a name travel in `bezoar-headers`. Any
/// other `x-…` header is its sender's, and other clients see it.
pub(super) fn is_reserved(name: &str) -> bool {
    let ours = name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS));
    ours || COPIES.contains(&name) || is_broker_header(name) || is_added_in_transit(name)
}

/// Headers that the broker adds when it delivers or dead-letters a message.
pub(super) fn is_broker_header(name: &str) -> bool {
    matches!(name, "x-death" | "x-delivery-count" | "x-acquired-count")
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
}

/// Headers of RabbitMQ 3.10 to 4.3 that tell how a message came here: by federation, by a shovel, from a stream, or from
/// another protocol. A message keeps them: federation and shovels recognize by them what they have moved already.
fn is_added_in_transit(name: &str) -> bool {
    const PREFIXES: [&str; 3] = ["x-opt-", "x-original-", "x-shovelled"];
    matches!(name, "x-invalid-headers" | "x-received-from" | "x-stream-offset")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_meaning_for_the_broker_or_for_us_are_reserved() {
        for name in [
            "bezoar-id",
            "Bezoar-Id",
            "CC",
            "BCC",
            "x-death",
            "x-first-death-queue",
            "x-last-death-reason",
            "x-delivery-count",
            "x-acquired-count",
            "x-received-from",
            "x-shovelled",
            "x-shovelled-timestamp",
            "x-stream-offset",
            "x-opt-sequence-number",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in
            ["x-tenant", "x-request-id", "X-Death", "x-deduplication-header", "x-delay", "cc", "x-"]
        {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
