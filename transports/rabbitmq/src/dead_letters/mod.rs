//! Dead letters: taken in by a feed, and replayed; and messages that found no queue.

pub(crate) mod dead_letter_feed;
pub(crate) mod dead_letter_queue;
pub(crate) mod replay;
pub(crate) mod unroutable;
