//! Dead letters: reading them, feeding them to a catalogue, and replaying them.

pub(crate) mod dead_letter_feed;
pub(crate) mod dead_letter_queue;
pub(crate) mod dead_letter_scan;
pub(crate) mod replay;
