//! Checks and provisions the brokers' queues, for `bezoar check` and `bezoar provision`, without a running gateway.

use anyhow::{Result, bail};
use bezoar::{Finding, QueueAdmin, QueueName, TransportError};

use crate::{broker::Broker, config::Config, route::describe};

/// A broker's queue and the findings about it.
#[derive(Debug)]
pub struct CheckedQueue {
    /// Its name in the gateway.
    pub queue: QueueName,
    /// What is wrong with it, or why the check failed.
    pub outcome: Result<Vec<Finding>, String>,
}

/// Checks every configured queue of a broker. Changes nothing.
///
/// # Errors
///
/// If the configuration of a broker is invalid.
pub async fn check(config: &Config) -> Result<Vec<CheckedQueue>> {
    let mut examined = Vec::new();
    for (queue, broker) in queues(config)? {
        let outcome = broker.validate(&queue).await.map_err(|error| describe(&error));
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
    for (queue, broker) in queues(config)? {
        if only.is_none_or(|only| *only == queue) {
            let failed = |error: TransportError| anyhow::anyhow!("{queue}: {}", describe(&error));
            broker.make(&queue).await.map_err(failed)?;
            done.push(queue);
        }
    }
    match only {
        Some(only) if done.is_empty() => {
            bail!("{only} is not a configured broker queue; add a [[queue]] or [[route]]")
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
