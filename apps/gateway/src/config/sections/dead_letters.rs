//! `[dead_letters]`: what may be done with dead letters, and how long they are kept.

use std::time::Duration;

use bezoar::{QueueName, ops::Retention};

use crate::config::reader::{Section, SectionReader};

/// What may be done with dead letters, and how long they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLettersConfig {
    /// How long they are kept; forever if not set.
    pub keep: Option<Duration>,
    /// How long before they expire the log warns of it.
    pub warn: Duration,
    /// The queues whose dead letters may be edited.
    pub editable: Vec<QueueName>,
    /// Whether a second person must approve an edit.
    pub approval: bool,
}

impl DeadLettersConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            keep: reader.optional(section, "keep"),
            warn: reader.or_default(section, "warn"),
            editable: reader.optional(section, "editable").unwrap_or_default(),
            approval: reader.or_default(section, "approval"),
        }
    }

    /// How long they are kept; `None` means forever.
    pub fn retention(&self) -> Option<Retention> {
        self.keep.map(|keep| Retention { keep, warn: self.warn })
    }
}
