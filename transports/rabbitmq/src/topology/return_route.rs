//! The way of a delayed message back to its work queue: directly, or through a return queue of its own.
//!
//! The delay queues are shared, and the broker moves at most 32 expired messages of a queue at a time. Those that a full
//! work queue refuses stay in these 32 places, and nothing behind them moves. So a work queue that can be full (a maximum
//! length, and `reject-publish`) has a return queue: it takes every message at once and passes it on at once (its time to
//! live is 0), and what is refused waits there. Other work queues do not need this hop, which costs the broker half as
//! much again as the delay itself.
//!
//! Both ways have routing keys of their own and exist side by side: a message that is on one of them stays on it.

use bezoar_core::{Invalid, QueueName};
use lapin::types::AMQPValue;

use super::{
    Binding, Queue, Topology, dead_lettering_arguments, delay_topology, level_exchange,
    within_limit,
};
use crate::{Options, QueueType};

/// The prefix of all return queues. A policy for the work queues of a program rarely matches it.
pub(crate) const PREFIX: &str = "bezoar.return.";

/// How delayed messages come back to their work queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReturnRoute {
    /// From the delay exchanges to the work queue.
    Direct,
    /// From the delay exchanges to the return queue, and from there to the work queue.
    ThroughQueue,
}

impl ReturnRoute {
    /// What the route consists of, except for the work queue.
    pub(crate) fn topology(
        self,
        queue: &QueueName,
        options: &Options,
    ) -> Result<Topology, Invalid> {
        let work = queue.as_str();
        let exits = |to: &str| -> Vec<_> {
            let exit = |level| Binding {
                from: level_exchange(level),
                to: to.to_owned(),
                key: delay_topology::exit_key(level, work, self),
            };
            (0..options.delay_levels()).map(exit).collect()
        };
        let (queues, bindings) = match self {
            Self::Direct => (Vec::new(), exits(work)),
            Self::ThroughQueue => {
                let waiting = return_queue(queue)?;
                let mut bindings = exits(&waiting.name);
                bindings.push(last_binding(work));
                (vec![waiting], bindings)
            }
        };
        Ok(Topology { exchanges: Vec::new(), queues, bindings })
    }
}

/// The name of the return queue of `queue`.
pub(crate) fn return_queue_name(queue: &QueueName) -> Result<String, Invalid> {
    within_limit(format!("{PREFIX}{queue}"))
}

/// Always of type quorum, for the same reason as the delay queues.
fn return_queue(queue: &QueueName) -> Result<Queue, Invalid> {
    let name = return_queue_name(queue)?;
    let Binding { from, key, .. } = last_binding(queue.as_str());
    let mut arguments = dead_lettering_arguments(QueueType::Quorum, &from, Some(&key));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(0));
    Ok(Queue { name, arguments })
}

/// From the return queue to the work queue. By an exchange of the delays, because it keeps what it cannot route.
fn last_binding(work: &str) -> Binding {
    let (from, key) = (level_exchange(0), delay_topology::return_key(work));
    Binding { from, to: work.to_owned(), key }
}
