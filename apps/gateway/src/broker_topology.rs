//! Checks, plans and provisions the brokers' queues, for `bezoar check` and `bezoar provision`, without a running gateway.

use std::{collections::BTreeMap, fmt};

use anyhow::{Result, anyhow, bail};
use bezoar::{Finding, QueueName, TransportError};
use futures_util::{StreamExt as _, future::join_all, stream};

pub use crate::broker::PlanForm;
use crate::{
    broker::Broker,
    config::{Config, DeadLetterMode, Name},
    route::describe,
};

/// How many queues of a broker are checked at once.
const CONCURRENCY: usize = 8;

/// A broker or a queue, and the findings about it.
#[derive(Debug)]
pub struct Checked {
    /// What was checked.
    pub subject: CheckedSubject,
    /// What is wrong with it, or why the check failed.
    pub outcome: Result<Vec<Finding>, String>,
}

/// What was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedSubject {
    /// A broker, and what all its queues share.
    Transport(Name),
    /// A queue, by its name in the gateway.
    Queue(QueueName),
}

impl fmt::Display for CheckedSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(name) => write!(f, "transport {name}"),
            Self::Queue(name) => write!(f, "queue {name}"),
        }
    }
}

/// What an administrator must create on a broker.
#[derive(Debug)]
pub struct BrokerPlan {
    /// The name of the broker in the configuration.
    pub broker: Name,
    /// Everything that the queues need there, in the form that was asked for.
    pub text: String,
}

/// A configured queue of a broker.
struct BrokerQueue {
    queue: QueueName,
    transport: Name,
    /// Queues of one broker share its connections.
    broker: Broker,
    mode: DeadLetterMode,
    /// Whether only its dead letters are used: it has no route, and a dead-letter queue of its own.
    only_letters: bool,
}

/// Checks every broker and every configured queue of it. Changes nothing.
///
/// # Errors
///
/// If the configuration of a broker is invalid.
pub async fn check(config: &Config) -> Result<Vec<Checked>> {
    let mut brokers: BTreeMap<Name, Vec<BrokerQueue>> = BTreeMap::new();
    for queue in queues(config)? {
        brokers.entry(queue.transport.clone()).or_default().push(queue);
    }
    let checks = brokers.into_iter().map(|(name, queues)| check_one(name, queues));
    Ok(join_all(checks).await.into_iter().flatten().collect())
}

async fn check_one(name: Name, queues: Vec<BrokerQueue>) -> Vec<Checked> {
    let (letters, work): (Vec<_>, Vec<_>) = queues.into_iter().partition(|it| it.only_letters);
    let mut checked = Vec::new();
    for mode in [DeadLetterMode::Publish, DeadLetterMode::Reject] {
        let of_mode: Vec<_> = work.iter().filter(|it| it.mode == mode).collect();
        let Some(first) = of_mode.first() else { continue };
        let names: Vec<_> = of_mode.iter().map(|it| it.queue.clone()).collect();
        let found = first.broker.dead_lettering(mode).validate_all(&names).await;
        let subject = CheckedSubject::Transport(name.clone());
        let found = match found {
            Ok(found) => found,
            Err(failed) => return vec![Checked { subject, outcome: Err(describe(&failed)) }],
        };
        if checked.is_empty() {
            checked.push(Checked { subject, outcome: Ok(found.shared) }); // the same for both modes
        }
        checked.extend(names.into_iter().zip(found.queues).map(|(queue, outcome)| Checked {
            subject: CheckedSubject::Queue(queue),
            outcome: outcome.map_err(|failed| describe(&failed)),
        }));
    }
    let of_letters = stream::iter(letters).map(check_dead_letters).buffered(CONCURRENCY);
    checked.extend(of_letters.collect::<Vec<_>>().await);
    checked
}

async fn check_dead_letters(BrokerQueue { queue, broker, .. }: BrokerQueue) -> Checked {
    let found = broker.validate_dead_letters(&queue).await;
    let outcome = found.map_err(|failed| describe(&failed));
    Checked { subject: CheckedSubject::Queue(queue), outcome }
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
/// If the configuration of a broker is invalid, or the broker has no plan of this form.
pub fn plan(config: &Config, only: Option<&QueueName>, form: PlanForm) -> Result<Vec<BrokerPlan>> {
    let mut brokers = BTreeMap::<Name, (Broker, Vec<QueueName>)>::new();
    for BrokerQueue { queue, transport, broker, .. } in selected(config, only)? {
        brokers.entry(transport).or_insert_with(|| (broker, Vec::new())).1.push(queue);
    }
    let plan = |(name, (broker, queues)): (Name, (Broker, Vec<QueueName>))| {
        let planned = broker.plan(&queues, form);
        let text = planned.map_err(|error| anyhow!("transports.{name}: {}", describe(&error)))?;
        Ok(BrokerPlan { broker: name, text })
    };
    brokers.into_iter().map(plan).collect()
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
    let (mut found, mut brokers) = (Vec::new(), BTreeMap::<Name, Broker>::new());
    for queue in config.all_queues() {
        let Some((transport, _)) = config.broker(&queue) else { continue };
        let broker = match brokers.get(&transport.name) {
            Some(broker) => broker.clone(),
            None => Broker::open(transport, config)?,
        };
        brokers.insert(transport.name.clone(), broker.clone());
        let route = config.routes.iter().find(|route| route.from == queue);
        let mode = route.and_then(|route| route.dead_letter).unwrap_or(DeadLetterMode::Publish);
        let only_letters = route.is_none() && config.has_own_dead_letter_queue(&queue);
        let transport = transport.name.clone();
        found.push(BrokerQueue { queue, transport, broker, mode, only_letters });
    }
    Ok(found)
}
