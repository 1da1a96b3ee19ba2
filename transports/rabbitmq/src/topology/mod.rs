//! The exchanges, queues and bindings that a work queue needs, as a value (pure).
//!
//! `provision.rs` creates what is missing, `preconditions.rs` makes sure of the most important parts before consuming, and
//! `check/` compares all of them with the broker. `delay_topology.rs` explains the delay queues, `return_route.rs` how
//! delayed messages come back, `dead_letter_route.rs` the names of dead-letter exchanges and queues.

pub(crate) mod dead_letter_route;
pub(crate) mod delay_topology;
pub(crate) mod known_routes;
pub(crate) mod lookup;
pub(crate) mod plan;
pub(crate) mod preconditions;
pub(crate) mod provision;
pub(crate) mod return_route;

use std::{collections::BTreeSet, iter};

use bezoar_core::{Invalid, QueueName};
use lapin::{
    ExchangeKind,
    types::{AMQPValue, FieldTable},
};

use crate::{Options, QueueType, ReturnQueues};

use dead_letter_route::DeadLetterRoute;
use delay_topology::DelayQueue;
use return_route::ReturnRoute;

/// The exchange and the queue of delayed messages that cannot come back, because their work queue was deleted. Without
/// them such messages would stay in their delay queue, and hold up everything behind them.
pub const UNROUTABLE: &str = "bezoar.unroutable";
/// The argument, or the key of a policy, of an exchange for what another one does not route.
pub(crate) const ALTERNATE: &str = "alternate-exchange";
/// A quarantine queue has the name of its work queue and this suffix.
const QUARANTINE_SUFFIX: &str = ".quarantine";
/// The broker drops a message that exceeds its delivery limit. Set out of reach: the ledger counts deliveries.
const DELIVERY_LIMIT: i64 = 1_000_000;

/// The exchanges, queues and bindings that a queue needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Exchanges, in the order of creation.
    pub exchanges: Vec<Exchange>,
    /// Queues, in the order of creation.
    pub queues: Vec<Queue>,
    /// Bindings, in the order of creation.
    pub bindings: Vec<Binding>,
}

/// A durable exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The name of the exchange.
    pub name: String,
    /// Its type.
    pub kind: ExchangeKind,
    /// Its arguments.
    pub arguments: FieldTable,
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
    /// What one work queue needs: itself, its dead-letter exchange and dead-letter queue, its quarantine queue, and what
    /// brings delayed messages back to it. A return queue only if [`Options::return_queues`] wants one for all queues.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a name is too long, or reserved for delay queues.
    pub fn for_queue(queue: &QueueName, options: &Options) -> Result<Self, Invalid> {
        let direct = ReturnRoute::Direct.topology(queue, options)?;
        let topology = Self::without_delays(queue, options)?.and(direct);
        match options.return_queues {
            ReturnQueues::Auto => Ok(topology),
            ReturnQueues::Always => {
                Ok(topology.and(ReturnRoute::ThroughQueue.topology(queue, options)?))
            }
        }
    }

    /// What one work queue needs, without the way back of delayed messages.
    pub(crate) fn without_delays(queue: &QueueName, options: &Options) -> Result<Self, Invalid> {
        if is_reserved(queue.as_str()) {
            let reserved = format!(
                "begins with `{}` or `{}`, or is `{UNROUTABLE}`, which is reserved for delayed messages",
                delay_topology::PREFIX,
                return_route::PREFIX
            );
            return Err(Invalid::new("queue name", reserved));
        }
        let (work, quarantine) = (queue.as_str().to_owned(), quarantine_queue(queue)?);
        let DeadLetterRoute { exchange, key, queue: dead } = DeadLetterRoute::of(queue, options)?;
        let queue_type = options.queue_type;
        let arguments = dead_lettering_arguments(queue_type, &exchange, Some(&key));
        // Every queue is bound to the default exchange by its name.
        let to_dead = (!exchange.is_empty()).then(|| Binding {
            from: exchange.clone(),
            to: dead.clone(),
            key: key.clone(),
        });
        Ok(Self {
            exchanges: iter::once(exchange).filter(|it| !it.is_empty()).map(direct).collect(),
            queues: vec![
                Queue { name: dead, arguments: storage_arguments(queue_type) },
                Queue { name: quarantine, arguments: arguments.clone() },
                Queue { name: work, arguments },
            ],
            bindings: to_dead.into_iter().collect(),
        })
    }

    /// The delay topology that all queues share, for delays up to [`Options::max_delay`].
    pub fn of_delays(options: &Options) -> Self {
        let levels = options.delay_levels();
        let hop_keys = |level| {
            let lower = DelayQueue::all(levels).filter(move |queue| queue.level < level);
            lower.map(move |to| Binding {
                from: level_exchange(level),
                to: delay_queue_name(to),
                key: delay_topology::hop_key(level, to),
            })
        };
        let unroutable = Exchange { kind: ExchangeKind::Fanout, ..direct(UNROUTABLE.to_owned()) };
        let to_unroutable =
            Binding { from: UNROUTABLE.to_owned(), to: UNROUTABLE.to_owned(), key: String::new() };
        let arguments = storage_arguments(QueueType::Quorum);
        let kept = Queue { name: UNROUTABLE.to_owned(), arguments };
        Self {
            exchanges: iter::once(unroutable).chain((0..levels).map(level)).collect(),
            queues: iter::once(kept).chain(DelayQueue::all(levels).map(delay_queue)).collect(),
            bindings: iter::once(to_unroutable).chain((0..levels).flat_map(hop_keys)).collect(),
        }
    }
}

impl Options {
    /// How many levels of delay queues [`max_delay`](Self::max_delay) needs.
    pub(crate) fn delay_levels(&self) -> u32 {
        delay_topology::levels(self.max_delay)
    }
}

fn direct(name: String) -> Exchange {
    Exchange { name, kind: ExchangeKind::Direct, arguments: FieldTable::default() }
}

/// The exchange that expired messages of a level go to.
fn level(level: u32) -> Exchange {
    let mut exchange = direct(level_exchange(level));
    insert(&mut exchange.arguments, ALTERNATE, UNROUTABLE);
    exchange
}

/// The name of the quarantine queue of `queue`.
pub(crate) fn quarantine_queue(queue: &QueueName) -> Result<String, Invalid> {
    with_suffix(queue, QUARANTINE_SUFFIX)
}

fn with_suffix(queue: &QueueName, suffix: &str) -> Result<String, Invalid> {
    within_limit(format!("{queue}{suffix}"))
}

/// The name of a queue that belongs to a work queue, if it is not too long.
fn within_limit(name: String) -> Result<String, Invalid> {
    match name.len() {
        ..=255 => Ok(name),
        _ => Err(Invalid::new(
            "queue name",
            "is too long: with the prefix `bezoar.return.` or the suffix `.quarantine` it must not exceed 255 bytes",
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

/// Whether no work queue can have this name.
fn is_reserved(name: &str) -> bool {
    is_delay_queue(name) || name.starts_with(return_route::PREFIX) || name == UNROUTABLE
}

/// The name of the exchange that expired messages of a level go to.
fn level_exchange(level: u32) -> String {
    format!("{}{level}", delay_topology::PREFIX)
}

/// The work queues among all queues of a virtual host: without delay queues, and without the dead-letter and quarantine
/// queues of other queues. A queue that only has such a name is a work queue.
pub(crate) fn work_queues(names: Vec<String>, options: &Options) -> Vec<QueueName> {
    let mut queues: Vec<_> =
        names.into_iter().filter_map(|name| QueueName::new(name).ok()).collect();
    queues.retain(|queue| !is_reserved(queue.as_str()));
    let configured = options.dead_letter_names.keys();
    let companions = |queue: &QueueName| {
        let dead = DeadLetterRoute::of(queue, options).ok().map(|route| route.queue);
        dead.into_iter().chain(quarantine_queue(queue).ok())
    };
    let companions: BTreeSet<_> = queues.iter().chain(configured).flat_map(companions).collect();
    queues.retain(|queue| !companions.contains(queue.as_str()));
    queues.sort();
    queues
}

fn storage_arguments(queue_type: QueueType) -> FieldTable {
    let mut arguments = FieldTable::default();
    insert(&mut arguments, "x-queue-type", queue_type.as_str());
    if queue_type == QueueType::Quorum {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
        // Without it, all leaders are on the node that the queues were created on.
        insert(&mut arguments, "x-queue-leader-locator", "balanced");
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
    use std::time::Duration;

    use super::*;

    fn options() -> Options {
        Options::from_url("amqp://localhost").unwrap()
    }

    #[test]
    fn a_queue_is_hidden_only_beside_the_queue_that_it_belongs_to() {
        let mut options = options();
        let own = dead_letter_route::DeadLetterNames {
            queue: Some("orders.dlq".to_owned()),
            ..Default::default()
        };
        options.dead_letter_names.insert(QueueName::new("orders").unwrap(), own);
        let all = [
            "orders",
            "orders.dlq",
            "orders.dead",
            "results",
            "results.dead",
            "results.quarantine",
            "walking.dead",
            "bezoar.delay.1.2",
            "bezoar.return.orders",
            UNROUTABLE,
        ];
        let shown = work_queues(all.map(str::to_owned).to_vec(), &options);
        let shown: Vec<_> = shown.iter().map(QueueName::as_str).collect();
        assert_eq!(shown, ["orders", "orders.dead", "results", "walking.dead"]);
    }

    #[test]
    fn levels_follow_the_longest_delay() {
        let queues = |hours: u64| {
            let max_delay = Duration::from_secs(hours * 3_600);
            Topology::of_delays(&Options { max_delay, ..options() }).queues.len()
        };
        assert_eq!((queues(1), queues(14), queues(75 * 24)), (43, 50, 65));
    }

    #[test]
    fn a_work_queue_names_its_dead_letter_exchange_and_key() {
        let queue = QueueName::new("results").unwrap();
        let topology = Topology::for_queue(&queue, &options()).unwrap();
        let work = topology.queues.iter().find(|queue| queue.name == "results").unwrap();
        let text = |name: &str| {
            work.arguments.inner()[name].as_long_string().map(ToString::to_string).unwrap()
        };
        assert_eq!(text("x-dead-letter-exchange"), "bezoar.dead");
        assert_eq!(text("x-dead-letter-routing-key"), "results");
        assert_eq!(text("x-dead-letter-strategy"), "at-least-once");
        assert_eq!(text("x-overflow"), "reject-publish");
        assert!(topology.queues.iter().any(|queue| queue.name == "results.dead"));
    }

    #[test]
    fn a_name_that_is_too_long_or_reserved_is_refused() {
        for name in ["x".repeat(245), "bezoar.delay.1>0.5".to_owned(), UNROUTABLE.to_owned()] {
            let name = QueueName::new(name).unwrap();
            assert!(Topology::for_queue(&name, &options()).is_err(), "{name}");
        }
    }

    #[test]
    fn every_delay_route_leads_to_its_work_queue() {
        check_route(ReturnRoute::Direct, "q");
        check_route(ReturnRoute::ThroughQueue, "bezoar.return.q");
    }

    #[track_caller]
    fn check_route(back: ReturnRoute, expected: &str) {
        let queue = QueueName::new("q").unwrap();
        let return_queues = ReturnQueues::Always;
        let options = Options { max_delay: delay_topology::MAX, return_queues, ..options() };
        let (delays, for_queue) =
            (Topology::of_delays(&options), Topology::for_queue(&queue, &options).unwrap());
        let next = |from: &str, route: &delay_topology::DelayRoute| -> Vec<String> {
            let leads = |it: &&Binding| it.from == from && route.hop_keys.contains(&it.key);
            let bindings = delays.bindings.iter().chain(&for_queue.bindings);
            bindings.filter(leads).map(|it| it.to.clone()).collect()
        };
        for millis in [1, 25, 125, 100_000, 123_456_789, 6_000_000_000] {
            let delay = Duration::from_millis(millis);
            let route = delay_topology::route(delay, ("q", back), options.delay_levels()).unwrap();
            let mut at = delay_queue_name(route.first);
            for _ in &route.hop_keys {
                let queue = delays.queues.iter().find(|it| it.name == at).unwrap();
                let behind = &queue.arguments.inner()["x-dead-letter-exchange"];
                let behind = behind.as_long_string().unwrap().to_string();
                let [to] = &next(&behind, &route)[..] else { panic!("{at} {route:?}") };
                to.clone_into(&mut at);
            }
            assert_eq!(at, expected, "{route:?}");
        }
    }

    #[test]
    fn a_return_queue_passes_messages_on_at_once_and_to_its_work_queue_alone() {
        let queue = QueueName::new("q").unwrap();
        let options = Options { return_queues: ReturnQueues::Always, ..options() };
        let topology = Topology::for_queue(&queue, &options).unwrap();
        let back = topology.queues.iter().find(|it| it.name == "bezoar.return.q").unwrap();
        let argument = |name: &str| plan::plain(&back.arguments.inner()[name]);
        assert_eq!(argument("x-message-ttl"), 0);
        let leads = |it: &&Binding| {
            argument("x-dead-letter-exchange") == it.from
                && argument("x-dead-letter-routing-key") == it.key
        };
        let to: Vec<_> = topology.bindings.iter().filter(leads).map(|it| it.to.as_str()).collect();
        assert_eq!(to, ["q"]);
    }
}
