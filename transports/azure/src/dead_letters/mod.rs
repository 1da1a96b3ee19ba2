//! Dead letters: the feed over a poison queue.

pub(crate) mod dead_letter_feed;
