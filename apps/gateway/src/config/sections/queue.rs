//! `[[queue]]`: a queue without a route, or with settings of its own.

use bezoar::QueueName;

use crate::config::{
    names::{BrokerName, choice},
    reader::{Section, SectionReader},
};

/// A queue without a route, or with settings of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its name.
    pub name: QueueName,
    /// What happens to its dead letters on the broker.
    pub watch: Watch,
    /// Its dead-letter exchange on the broker.
    pub dead_letter_exchange: Option<BrokerName>,
    /// The routing key of its dead letters on the broker.
    pub dead_letter_key: Option<BrokerName>,
    /// Its dead-letter queue on the broker.
    pub dead_letter_queue: Option<BrokerName>,
}

choice! {
    /// What happens to dead letters on a broker.
    Watch {
        /// They are taken into the catalogue.
        Take = "take",
        /// They stay on the broker and are counted.
        Count = "count",
    }
}

impl QueueConfig {
    pub(in crate::config) fn read(
        reader: &mut SectionReader<'_>,
        section: &Section<'_>,
    ) -> Option<Self> {
        let name = reader.required(section, "name");
        let watch = reader.or_default(section, "watch");
        let mut own = |key| reader.optional(section, key);
        let [dead_letter_exchange, dead_letter_key, dead_letter_queue] =
            ["dead_letter_exchange", "dead_letter_key", "dead_letter_queue"].map(&mut own);
        let name = name?;
        Some(Self { name, watch, dead_letter_exchange, dead_letter_key, dead_letter_queue })
    }

    /// A queue with the default settings.
    pub fn new(name: QueueName) -> Self {
        let (dead_letter_exchange, dead_letter_key, dead_letter_queue) = (None, None, None);
        let watch = Watch::Take;
        Self { name, watch, dead_letter_exchange, dead_letter_key, dead_letter_queue }
    }
}
