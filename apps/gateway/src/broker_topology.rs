//! What is wrong with the queues of brokers, and making what is missing: for commands that need no running gateway.

use anyhow::{Result, bail};
use bezoar::{Finding, QueueAdmin, QueueName, TransportError};

use crate::{broker::Broker, config::Config, route::describe};

/// A queue of a broker, and what was found.
#[derive(Debug)]
pub struct CheckedQueue {
    /// By the name that it has here.
    pub queue: QueueName,
    /// What is wrong with it, or why that cannot be told.
    pub outcome: Result<Vec<Finding>, String>,
}

/// Looks at each queue of a broker that is configured. Changes nothing.
///
/// # Errors
///
/// If a broker is configured in a way that cannot work.
pub async fn check(config: &Config) -> Result<Vec<CheckedQueue>> {
    let mut examined = Vec::new();
    for (queue, broker) in queues(config)? {
        let outcome = broker.validate(&queue).await.map_err(|error| describe(&error));
        examined.push(CheckedQueue { queue, outcome });
    }
    Ok(examined)
}

/// Makes what each queue of a broker needs and lacks, or those of one queue; the queues.
///
/// # Errors
///
/// What a broker says, with the queue; those before it are provisioned.
pub async fn provision(config: &Config, only: Option<&QueueName>) -> Result<Vec<QueueName>> {
    let mut done = Vec::new();
    for (queue, broker) in queues(config)? {
        if only.is_none_or(|only| *only == queue) {
            let failed = |error: TransportError| anyhow::anyhow!("{queue}: {}", describe(&error));
            broker.make(&queue).await.map_err(failed)?;
            done.push(queue);
        }
    }
    match only {
        Some(only) if done.is_empty() => {
            bail!("{only} is no queue of a broker that is configured; add a [[queue]] or [[route]]")
        }
        _ => Ok(done),
    }
}

fn queues(config: &Config) -> Result<Vec<(QueueName, Broker)>> {
    let mut found = Vec::new();
    for queue in config.all_queues() {
        if let Some((transport, _)) = config.broker(&queue) {
            found.push((queue, Broker::open(transport, config)?));
        }
    }
    Ok(found)
}
