//! The exchanges, queues and bindings that a work queue needs, as a value (pure).
//!
//! `provision.rs` creates them, `preconditions.rs` makes sure of the most important ones before consuming, and
//! `check/` compares all of them with the broker. `delay_topology.rs` explains the delay queues.

pub(crate) mod delay_topology;
pub(crate) mod preconditions;
pub(crate) mod provision;

use std::iter;

use bezoar_core::{Invalid, QueueName};
use lapin::types::{AMQPValue, FieldTable};

use crate::QueueType;

use delay_topology::DelayQueue;

/// The dead-letter exchange. The routing key is the name of the work queue.
pub(crate) const DEAD_EXCHANGE: &str = "bezoar.dead";
/// A dead-letter queue has the name of its work queue and this suffix.
const DEAD_SUFFIX: &str = ".dead";
/// A quarantine queue has the name of its work queue and this suffix.
const QUARANTINE_SUFFIX: &str = ".quarantine";
/// The broker drops a message that exceeds its delivery limit. Set out of reach: the ledger counts deliveries.
const DELIVERY_LIMIT: i64 = 1_000_000;

/// The exchanges, queues and bindings that a queue needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Direct, durable exchanges, in the order of creation.
    pub exchanges: Vec<String>,
    /// Queues, in the order of creation.
    pub queues: Vec<Queue>,
    /// Bindings, in the order of creation.
    pub bindings: Vec<Binding>,
}

/// A durable queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// The name of the queue.
    pub name: String,
    /// The `x-` arguments of the queue.
    pub arguments: FieldTable,
}

/// A binding from an exchange to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The name of the exchange.
    pub from: String,
    /// The name of the queue.
    pub to: String,
    /// The routing key.
    pub key: String,
}

impl Topology {
    /// What one work queue needs: itself, the dead-letter exchange, its dead-letter queue, its quarantine queue, and
    /// the bindings that bring delayed messages back to it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the name leaves no room for the suffixes, or begins with the prefix of delay queues.
    pub fn for_queue(queue: &QueueName, queue_type: QueueType) -> Result<Self, Invalid> {
        if is_delay_queue(queue.as_str()) {
            let taken = format!(
                "begins with `{}`, which is reserved for delay queues",
                delay_topology::PREFIX
            );
            return Err(Invalid::new("queue name", taken));
        }
        let (work, dead) = (queue.as_str().to_owned(), dead_queue(queue)?);
        let arguments = dead_lettering_arguments(queue_type, DEAD_EXCHANGE, Some(&work));
        let to_dead =
            Binding { from: DEAD_EXCHANGE.to_owned(), to: dead.clone(), key: work.clone() };
        let bindings = iter::once(to_dead).chain(delay_return_bindings(&work)).collect();
        Ok(Self {
            exchanges: vec![DEAD_EXCHANGE.to_owned()],
            queues: vec![
                Queue { name: dead, arguments: storage_arguments(queue_type) },
                Queue { name: quarantine_queue(queue)?, arguments: arguments.clone() },
                Queue { name: work, arguments },
            ],
            bindings,
        })
    }

    /// The delay topology, which all queues share.
    pub fn of_delays() -> Self {
        let hop_keys = |level| {
            let lower = DelayQueue::all().filter(move |queue| queue.level < level);
            lower.map(move |to| Binding {
                from: level_exchange(level),
                to: delay_queue_name(to),
                key: delay_topology::hop_key(level, to),
            })
        };
        Self {
            exchanges: (0..delay_topology::LEVELS).map(level_exchange).collect(),
            queues: DelayQueue::all().map(delay_queue).collect(),
            bindings: (0..delay_topology::LEVELS).flat_map(hop_keys).collect(),
        }
    }
}

/// The name of the dead-letter queue of `queue`.
pub(crate) fn dead_queue(queue: &QueueName) -> Result<String, Invalid> {
    companion(queue, DEAD_SUFFIX)
}

/// The name of the quarantine queue of `queue`.
pub(crate) fn quarantine_queue(queue: &QueueName) -> Result<String, Invalid> {
    companion(queue, QUARANTINE_SUFFIX)
}

fn companion(queue: &QueueName, suffix: &str) -> Result<String, Invalid> {
    let name = format!("{queue}{suffix}");
    match name.len() {
        ..=255 => Ok(name),
        _ => Err(Invalid::new(
            "queue name",
            "is too long: with the suffix `.quarantine` it must not exceed 255 bytes",
        )),
    }
}

/// The name of a delay queue.
pub(crate) fn delay_queue_name(queue: DelayQueue) -> String {
    format!("{}{queue}", delay_topology::PREFIX)
}

/// Whether this is the name of a delay queue.
pub(crate) fn is_delay_queue(name: &str) -> bool {
    name.starts_with(delay_topology::PREFIX)
}

/// The bindings that bring delayed messages back to `queue`, one from each level.
pub(crate) fn delay_return_bindings(queue: &str) -> impl Iterator<Item = Binding> {
    (0..delay_topology::LEVELS).map(move |level| Binding {
        from: level_exchange(level),
        to: queue.to_owned(),
        key: delay_topology::exit_key(level, queue),
    })
}

/// The exchange that expired messages of a level go to.
fn level_exchange(level: u32) -> String {
    format!("{}{level}", delay_topology::PREFIX)
}

/// Whether this is not a work queue, but a delay, dead-letter or quarantine queue.
pub(crate) fn is_internal(name: &str) -> bool {
    is_delay_queue(name) || name.ends_with(DEAD_SUFFIX) || name.ends_with(QUARANTINE_SUFFIX)
}

fn storage_arguments(queue_type: QueueType) -> FieldTable {
    let mut arguments = FieldTable::default();
    insert(&mut arguments, "x-queue-type", queue_type.as_str());
    if queue_type == QueueType::Quorum {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
    }
    arguments
}

fn dead_lettering_arguments(
    queue_type: QueueType,
    exchange: &str,
    key: Option<&str>,
) -> FieldTable {
    let mut arguments = storage_arguments(queue_type);
    insert(&mut arguments, "x-dead-letter-exchange", exchange);
    if let Some(key) = key {
        insert(&mut arguments, "x-dead-letter-routing-key", key);
    }
    if queue_type == QueueType::Quorum {
        // Both or neither: with another overflow the broker silently falls back to at-most-once.
        insert(&mut arguments, "x-dead-letter-strategy", "at-least-once");
        insert(&mut arguments, "x-overflow", "reject-publish");
    }
    arguments
}

/// Always of type quorum, whatever the type of the work queues: a classic queue moves expired messages without waiting
/// for a confirm, and may lose them if the broker dies at that moment.
fn delay_queue(queue: DelayQueue) -> Queue {
    let mut arguments =
        dead_lettering_arguments(QueueType::Quorum, &level_exchange(queue.level), None);
    let time_to_live = queue.time_to_live_ms().map_or(0, i64::from);
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(time_to_live));
    Queue { name: delay_queue_name(queue), arguments }
}

fn insert(arguments: &mut FieldTable, name: &str, value: &str) {
    arguments.insert(name.into(), AMQPValue::LongString(value.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_queue_names_its_dead_letter_exchange_and_key() {
        let queue = QueueName::new("results").unwrap();
        let topology = Topology::for_queue(&queue, QueueType::Quorum).unwrap();
        let work = topology.queues.iter().find(|queue| queue.name == "results").unwrap();
        let text = |name: &str| {
            work.arguments.inner()[name].as_long_string().map(ToString::to_string).unwrap()
        };
        assert_eq!(text("x-dead-letter-exchange"), DEAD_EXCHANGE);
        assert_eq!(text("x-dead-letter-routing-key"), "results");
        assert_eq!(text("x-dead-letter-strategy"), "at-least-once");
        assert_eq!(text("x-overflow"), "reject-publish");
        assert!(topology.queues.iter().any(|queue| queue.name == "results.dead"));
    }

    #[test]
    fn a_name_that_is_too_long_or_reserved_is_refused() {
        for name in ["x".repeat(245), "bezoar.delay.1>0.5".to_owned()] {
            let name = QueueName::new(name).unwrap();
            assert!(Topology::for_queue(&name, QueueType::Classic).is_err(), "{name}");
        }
    }

    #[test]
    fn every_delay_route_leads_to_its_work_queue() {
        let queue = QueueName::new("q").unwrap();
        let (delays, for_queue) =
            (Topology::of_delays(), Topology::for_queue(&queue, QueueType::Quorum).unwrap());
        let next = |from: &str, route: &delay_topology::DelayRoute| -> Vec<String> {
            let leads = |it: &&Binding| it.from == from && route.hop_keys.contains(&it.key);
            let bindings = delays.bindings.iter().chain(&for_queue.bindings);
            bindings.filter(leads).map(|it| it.to.clone()).collect()
        };
        for millis in [1, 25, 125, 100_000, 123_456_789, 6_000_000_000] {
            let route =
                delay_topology::route(std::time::Duration::from_millis(millis), "q").unwrap();
            let mut at = delay_queue_name(route.first);
            for _ in &route.hop_keys {
                let queue = delays.queues.iter().find(|it| it.name == at).unwrap();
                let behind = &queue.arguments.inner()["x-dead-letter-exchange"];
                let behind = behind.as_long_string().unwrap().to_string();
                let [to] = &next(&behind, &route)[..] else { panic!("{at} {route:?}") };
                to.clone_into(&mut at);
            }
            assert_eq!(at, "q", "{route:?}");
        }
    }
}
