//! Limits messages that timed out before to half of the slots, so that they do not block the others.

use std::time::Duration;

use super::{MessageFacts, recent::Recent};

/// How long a slow message waits while others go first.
const LATER: Duration = Duration::from_secs(1);
/// How many of the messages that waited once are remembered.
const REMEMBERED: usize = 1_024;

#[derive(Debug)]
pub(super) struct SlowSlots {
    running: u32,
    /// With a single slot, the messages that waited once.
    waited: Recent<()>,
}

impl Default for SlowSlots {
    fn default() -> Self {
        Self { running: 0, waited: Recent::new(REMEMBERED) }
    }
}

impl SlowSlots {
    /// Whether a message may run, or how long it should wait.
    pub(super) fn check(&mut self, message: &MessageFacts, slots: u32) -> Result<(), Duration> {
        if !message.timed_out {
            return Ok(());
        }
        let may_run = match slots {
            0 | 1 => self.waited.remove(message.key).is_some(),
            _ => self.running < slots / 2,
        };
        if may_run {
            return Ok(());
        }
        if slots <= 1 {
            self.waited.set(message.key, ());
        }
        Err(LATER)
    }

    pub(super) fn entered(&mut self, message: &MessageFacts) {
        self.running += u32::from(message.timed_out);
    }

    pub(super) fn left(&mut self, message: &MessageFacts) {
        self.running -= u32::from(message.timed_out);
    }
}
