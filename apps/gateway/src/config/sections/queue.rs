//! `[[queue]]`: a queue without a route, or with settings of its own.

use bezoar::QueueName;

use crate::config::{
    names::choice,
    reader::{Section, SectionReader},
};

/// A queue without a route, or with settings of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its name.
    pub name: QueueName,
    /// What happens to its dead letters on the broker.
    pub watch: Watch,
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
        Some(Self { name: name?, watch })
    }
}
