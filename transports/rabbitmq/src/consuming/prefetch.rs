//! How many messages the broker sends ahead, limited by number and by bytes.
//!
//! RabbitMQ limits by number only. So the number follows the sizes of the messages: at first each of them may be as large
//! as `max_message_bytes`, later as the largest of late. `basic.qos` applies only to consumers that start after it, and what
//! the broker has sent is read in any case. So the consumer is started again when the number should double or halve.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use crate::Options;

/// With each message the largest size of late becomes smaller by this part of itself.
const DECAY: usize = 32;

#[derive(Debug)]
pub(crate) struct PrefetchLimit {
    /// The limit by number.
    most: u16,
    max_bytes: usize,
    /// The largest size of late.
    largest: AtomicUsize,
    /// The limit that the consumer runs with.
    in_use: AtomicU16,
}

impl PrefetchLimit {
    pub(crate) fn new(most: u32, options: &Options) -> Self {
        Self {
            most: u16::try_from(most).unwrap_or(u16::MAX),
            max_bytes: options.max_prefetch_bytes,
            largest: AtomicUsize::new(options.max_message_bytes),
            in_use: AtomicU16::new(0),
        }
    }

    /// The limit for a consumer that starts now.
    pub(crate) fn start(&self) -> u16 {
        let limit = self.limit();
        self.in_use.store(limit, Ordering::SeqCst);
        limit
    }

    /// Takes note of the sizes of messages. Returns whether the consumer should be started again, once.
    pub(crate) fn observe(&self, sizes: impl IntoIterator<Item = usize>) -> bool {
        let before = self.largest.load(Ordering::SeqCst);
        let next = |largest: usize, size: usize| size.max(largest - largest.div_ceil(DECAY));
        self.largest.store(sizes.into_iter().fold(before, next), Ordering::SeqCst);
        let (limit, in_use) = (self.limit(), self.in_use.load(Ordering::SeqCst));
        let is_far = limit / 2 >= in_use || limit <= in_use / 2;
        is_far && in_use > 0 && self.in_use.swap(0, Ordering::SeqCst) > 0
    }

    fn limit(&self) -> u16 {
        let by_bytes = self.max_bytes / self.largest.load(Ordering::SeqCst).max(1);
        u16::try_from(by_bytes).unwrap_or(u16::MAX).clamp(1, self.most.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> PrefetchLimit {
        let (max_message_bytes, max_prefetch_bytes) = (1_000, 8_000);
        let options = Options::from_url("amqp://localhost").unwrap();
        PrefetchLimit::new(64, &Options { max_message_bytes, max_prefetch_bytes, ..options })
    }

    #[test]
    fn the_largest_messages_never_exceed_the_bytes() {
        let limit = limit();
        assert_eq!(limit.start(), 8, "before any size is known");
        assert!(!limit.observe([1_000; 100]));
        assert_eq!(limit.start(), 8);
        assert!(limit.observe([4_000]), "foreign messages may be larger");
        assert_eq!(limit.start(), 2);
    }

    #[test]
    fn small_messages_raise_the_limit_and_large_ones_lower_it() {
        let limit = limit();
        assert_eq!(limit.start(), 8);
        assert!(limit.observe([10; 30]));
        assert!(!limit.observe([10]), "it is being started again");
        assert!((16..32).contains(&limit.start()));
        assert!(limit.observe([10; 200]));
        assert_eq!(limit.start(), 64, "never more than asked for");
        assert!(!limit.observe([10; 1_000]));
        assert!(limit.observe([10, 1_000]));
        assert_eq!(limit.start(), 8);
    }
}
