//! Checks, plans and provisions the brokers' queues, for `bezoar check` and `bezoar provision`, without a running gateway.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use bezoar::{Finding, QueueAdmin, QueueName, TransportError, rabbitmq::Topology};

use crate::{broker::Broker, config::Config, route::describe};

/// A broker's queue and the findings about it.
#[derive(Debug)]
pub struct CheckedQueue {
    /// Its name in the gateway.
    pub queue: QueueName,
    /// What is wrong with it, or why the check failed.
    pub outcome: Result<Vec<Finding>, String>,
}

/// What an administrator must create on a broker.
#[derive(Debug)]
pub struct BrokerPlan {
    /// The name of the broker in the configuration.
    pub broker: String,
    /// The virtual host.
    pub vhost: String,
    /// Everything that the queues need there.
    pub topology: Topology,
}

/// A configured queue of a broker.
struct BrokerQueue {
    queue: QueueName,
    broker: Broker,
    /// Whether only its dead letters are used: it has no route, and a dead-letter queue of its own.
    only_letters: bool,
}

/// Checks every configured queue of a broker. Changes nothing.
///
/// # Errors
///
/// If the configuration of a broker is invalid.
pub async fn check(config: &Config) -> Result<Vec<CheckedQueue>> {
    let mut examined = Vec::new();
    for BrokerQueue { queue, broker, only_letters } in queues(config)? {
        let outcome = match only_letters {
            true => broker.dead_letter_feed(&queue).await.map(|_| Vec::new()),
            false => broker.validate(&queue).await,
        };
        let outcome = outcome.map_err(|error| describe(&error));
        examined.push(CheckedQueue { queue, outcome });
    }
    Ok(examined)
}

/// Creates what is missing for every broker queue, or only for one; returns the queues.
///
/// # Errors
///
/// The broker's error, with the queue; the queues before it are provisioned.
pub async fn provision(config: &Config, only: Option<&QueueName>) -> Result<Vec<QueueName>> {
    let mut done = Vec::new();
    for BrokerQueue { queue, broker, .. } in selected(config, only)? {
        let failed = |error: TransportError| anyhow!("{queue}: {}", describe(&error));
        broker.make(&queue).await.map_err(failed)?;
        done.push(queue);
    }
    Ok(done)
}

/// What every broker queue needs, or only one, by broker. Asks no broker.
///
/// # Errors
///
/// If the configuration of a broker is invalid.
pub fn plan(config: &Config, only: Option<&QueueName>) -> Result<Vec<BrokerPlan>> {
    let mut plans = BTreeMap::<String, BrokerPlan>::new();
    for BrokerQueue { queue, broker, .. } in selected(config, only)? {
        let failed = |error: TransportError| anyhow!("{queue}: {}", describe(&error));
        let (vhost, topology) = broker.plan(&queue).map_err(failed)?;
        let name = queue.as_str().split('/').next().unwrap_or_default().to_owned();
        let known = plans.remove(&name).map(|plan| plan.topology);
        let topology = known.into_iter().fold(topology, |new, known| known.and(new));
        plans.insert(name.clone(), BrokerPlan { broker: name, vhost, topology });
    }
    Ok(plans.into_values().collect())
}

/// The queues to create: all, or one of them.
fn selected(config: &Config, only: Option<&QueueName>) -> Result<Vec<BrokerQueue>> {
    let mut all = queues(config)?;
    all.retain(|it| only.is_none_or(|only| *only == it.queue));
    if let (Some(only), true) = (only, all.is_empty()) {
        bail!("{only} is not a configured broker queue; add a [[queue]] or [[route]]");
    }
    all.retain(|it| !it.only_letters);
    Ok(all)
}

fn queues(config: &Config) -> Result<Vec<BrokerQueue>> {
    let mut found = Vec::new();
    for queue in config.all_queues() {
        let Some((transport, _)) = config.broker(&queue) else { continue };
        let route = config.routes.iter().find(|route| route.from == queue);
        let broker = Broker::open(transport, config)?;
        let broker = match route.and_then(|route| route.dead_letter) {
            Some(mode) => broker.dead_lettering(mode),
            None => broker,
        };
        let only_letters = route.is_none() && config.has_own_dead_letter_queue(&queue);
        found.push(BrokerQueue { queue, broker, only_letters });
    }
    Ok(found)
}
