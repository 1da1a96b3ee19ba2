//! Dead letters: taken in turn by a feed, and replayed.

pub(crate) mod dead_letter_feed;
pub(crate) mod dead_letter_queue;
pub(crate) mod replay;
