//! The one list of kinds of brokers. Each has a folder beside this file, with its keys and what the gateway does with it.

use std::{fmt::Debug, sync::Arc, time::Duration};

use anyhow::Result;
use bezoar::{QueueName, Worker};

use super::{
    BrokerTransport,
    azure::{self, AzureConfig},
    postgres::{self, PostgresConfig},
    rabbitmq::{self, RabbitMqConfig},
};
use crate::config::{
    Config, Key, Name, QueueConfig,
    reader::{Section, SectionReader},
};

/// What is configured of a broker, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportSettings {
    /// RabbitMQ.
    RabbitMq(RabbitMqConfig),
    /// Azure Storage Queue.
    Azure(Box<AzureConfig>),
    /// PostgreSQL.
    Postgres(PostgresConfig),
}

/// The kinds of brokers.
pub(crate) static KINDS: &[TransportKind] = &[rabbitmq::KIND, azure::KIND, postgres::KIND];

impl TransportSettings {
    /// The same, without the kind.
    pub(crate) fn of_kind(&self) -> &dyn KindSettings {
        match self {
            Self::RabbitMq(settings) => settings,
            Self::Azure(settings) => &**settings,
            Self::Postgres(settings) => settings,
        }
    }
}

/// A kind of broker.
#[derive(Debug)]
pub(crate) struct TransportKind {
    /// The name of the product.
    pub(crate) name: &'static str,
    /// The schemes of its URLs.
    pub(crate) schemes: &'static [&'static str],
    /// A URL as people write it.
    pub(crate) example: &'static str,
    /// The keys of its transports.
    pub(crate) keys: &'static [Key],
    /// Reads a transport. `None` if it cannot be used; the reader then knows why.
    pub(crate) read: fn(&mut SectionReader<'_>, &Section<'_>) -> Option<TransportSettings>,
}

/// What the gateway needs to know of a broker's settings, whatever its kind.
pub(crate) trait KindSettings: Debug {
    /// Opens the broker. The connection is opened on first use.
    fn open(&self, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>>;

    /// Whether missing queues are created.
    fn provisions(&self) -> bool;

    /// The longest delay before a retry.
    fn longest_delay(&self) -> Duration;

    /// What a route from this broker has unless it says otherwise.
    fn route_defaults(&self) -> RouteDefaults {
        RouteDefaults::default()
    }

    /// Sets how a worker consumes a queue of this broker, with at most `concurrency` messages at a time.
    fn consume(&self, worker: Worker, concurrency: u32) -> Worker {
        worker.concurrency(concurrency)
    }

    /// What is wrong with a queue of this broker, by its name there and what its `[[queue]]` says.
    fn check_queue(&self, _there: &QueueName, _said: Option<&QueueConfig>) -> Vec<QueueProblem> {
        Vec::new()
    }

    /// Whether messages can be dead-lettered by rejecting them.
    fn rejects(&self) -> bool {
        true
    }

    /// The age at which bodies outside of messages are removed if no message needs them.
    fn orphans_after(&self) -> Option<Duration> {
        None
    }

    /// The queue that the dead letters of a queue go to, by its name there and what its `[[queue]]` says, if a
    /// `[[poison_retry]]` can work on it.
    fn dead_letter_queue(
        &self,
        _there: &QueueName,
        _said: Option<&QueueConfig>,
    ) -> Option<QueueName> {
        None
    }

    /// Whether a `[[poison_retry]]` can work on its queues.
    fn retries_poison(&self) -> bool {
        false
    }
}

/// What a route has unless it says otherwise; `None` is the default of all routes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RouteDefaults {
    pub(crate) concurrency: Option<u32>,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_deliveries: Option<u32>,
}

/// A key of a `[[queue]]`, and what is wrong with it, worded to follow the key.
pub(crate) type QueueProblem = (&'static str, String);
