//! Which exchanges, queues and bindings a queue needs, as a value. Who creates or checks them is elsewhere.

pub(crate) mod delay_topology;
pub(crate) mod preconditions;
pub(crate) mod provision;

use std::iter;

use bezoar_core::{Invalid, QueueName};
use lapin::types::{AMQPValue, FieldTable};

use crate::QueueType;

use delay_topology::DelayQueue;

/// The exchange that messages set aside go to, by the name of the queue they come from.
pub(crate) const DEAD_EXCHANGE: &str = "bezoar.dead";
/// What a queue of messages set aside is called: its work queue's name, and this.
const DEAD_SUFFIX: &str = ".dead";
/// What the queue of suspects is called: its work queue's name, and this.
const QUARANTINE_SUFFIX: &str = ".quarantine";
/// The broker's own limit of deliveries, which would drop what it is reached by. Set out of reach: the ledger counts.
const DELIVERY_LIMIT: i64 = 1_000_000;

/// What there must be for a queue to work.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Direct and durable ones, in the order of creation.
    pub exchanges: Vec<String>,
    /// In the order of creation.
    pub queues: Vec<Queue>,
    /// In the order of creation.
    pub bindings: Vec<Binding>,
}

/// A queue, durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its `x-` arguments.
    pub arguments: FieldTable,
}

/// A binding from an exchange to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The exchange.
    pub from: String,
    /// The queue.
    pub to: String,
    /// For which routing keys.
    pub key: String,
}

impl Topology {
    /// What one work queue needs: itself, the dead-letter exchange, its dead-letter queue, its quarantine
    /// queue, and its ways back from the ladder of delays.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the name is so long that its other queues cannot be named, or is one of the ladder of delays.
    pub fn for_queue(queue: &QueueName, queue_type: QueueType) -> Result<Self, Invalid> {
        if is_delay_queue(queue.as_str()) {
            let taken =
                format!("begins with `{}`, as only queues for delays do", delay_topology::PREFIX);
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

    /// The ladder of delays, shared by all queues. See `delay.rs`.
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

/// The queue of what was set aside from `queue`.
pub(crate) fn dead_queue(queue: &QueueName) -> Result<String, Invalid> {
    companion(queue, DEAD_SUFFIX)
}

/// The queue of those messages of `queue` that may have crashed their process.
pub(crate) fn quarantine_queue(queue: &QueueName) -> Result<String, Invalid> {
    companion(queue, QUARANTINE_SUFFIX)
}

fn companion(queue: &QueueName, suffix: &str) -> Result<String, Invalid> {
    let name = format!("{queue}{suffix}");
    match name.len() {
        ..=255 => Ok(name),
        _ => Err(Invalid::new(
            "queue name",
            "leaves no room for `.quarantine`; at most 244 bytes do",
        )),
    }
}

/// A queue of the ladder.
pub(crate) fn delay_queue_name(queue: DelayQueue) -> String {
    format!("{}{queue}", delay_topology::PREFIX)
}

/// Whether this is the name of a queue of the ladder.
pub(crate) fn is_delay_queue(name: &str) -> bool {
    name.starts_with(delay_topology::PREFIX)
}

/// How a queue's messages come back from the ladder: from each level.
pub(crate) fn delay_return_bindings(queue: &str) -> impl Iterator<Item = Binding> {
    (0..delay_topology::LEVELS).map(move |level| Binding {
        from: level_exchange(level),
        to: queue.to_owned(),
        key: delay_topology::exit_key(level, queue),
    })
}

/// The exchange that messages go to when they have rested on a level of the ladder.
fn level_exchange(level: u32) -> String {
    format!("{}{level}", delay_topology::PREFIX)
}

/// Whether a queue is none that somebody sends to: a part of the ladder, or beside a work queue.
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
        // Both or neither: with another overflow the broker silently falls back to at most once.
        insert(&mut arguments, "x-dead-letter-strategy", "at-least-once");
        insert(&mut arguments, "x-overflow", "reject-publish");
    }
    arguments
}

/// Of type quorum whatever the type of the work queues: a classic queue moves what has expired without waiting for a
/// confirmation, and may lose it if the broker dies just then.
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
    fn a_name_without_room_or_that_is_taken_is_refused() {
        for name in ["x".repeat(245), "bezoar.delay.1>0.5".to_owned()] {
            let name = QueueName::new(name).unwrap();
            assert!(Topology::for_queue(&name, QueueType::Classic).is_err(), "{name}");
        }
    }

    #[test]
    fn every_way_leads_to_its_end() {
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
