//! `[[queue]]`: a queue that exists without a route, or is more than a route says.

use bezoar::QueueName;

use crate::config::{
    names::choice,
    reader::{Section, SectionReader},
};

/// A queue that exists without a route, or is more than a route says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its name.
    pub name: QueueName,
    /// What becomes of its dead letters, if it is a broker's.
    pub watch: Watch,
}

choice! {
    /// What becomes of dead letters that are on a broker.
    Watch {
        /// They are taken into the catalogue.
        Take = "take",
        /// They stay there and are counted.
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
