//! The one list of kinds of brokers. Each has a folder beside this file, with its keys and what the gateway does with it.

use std::{fmt::Debug, sync::Arc, time::Duration};

use anyhow::Result;

use super::{
    BrokerTransport,
    rabbitmq::{self, RabbitMqConfig},
};
use crate::config::{
    Config, Key, Name,
    reader::{Section, SectionReader},
};

/// What is configured of a broker, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportSettings {
    /// RabbitMQ.
    RabbitMq(RabbitMqConfig),
}

/// The kinds of brokers.
pub(crate) static KINDS: &[TransportKind] = &[rabbitmq::KIND];

impl TransportSettings {
    /// The same, without the kind.
    pub(crate) fn of_kind(&self) -> &dyn KindSettings {
        match self {
            Self::RabbitMq(settings) => settings,
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
}
