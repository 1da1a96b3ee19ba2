//! The leases on one channel (pure; `consumer_channel.rs` talks to the broker).
//!
//! Every tag that the broker has sent is *open* until it is acknowledged or rejected. An open tag is prefetched
//! (waiting to be handed out), leased (it has its message here, so that a copy can be made from it), or being settled.
//! Only tags below the lowest open one may be acknowledged together. A lease has no deadline: it ends with its channel.

use std::collections::{BTreeMap, VecDeque};

use bezoar_core::{ByteLimit, Delivery, Message, Receipt};

use super::acknowledgements::{self, Ack};
use crate::wire::Raw;

/// A prefetched message: arrived, and not handed out yet.
#[derive(Debug)]
pub(crate) struct PrefetchedMessage {
    pub(crate) tag: u64,
    pub(crate) raw: Box<Raw>,
    /// Its ledger does not count the coming delivery yet.
    pub(crate) message: Message,
}

/// The leases on a channel. A receipt of another channel has another epoch and matches nothing here.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    epoch: i64,
    waiting: VecDeque<PrefetchedMessage>,
    /// All tags that are neither acknowledged nor rejected; with the message if it is leased.
    open: BTreeMap<u64, Option<Box<Raw>>>,
    /// The highest tag that was open at the last call of `has_stayed_open`.
    seen: u64,
}

impl Leases {
    pub(crate) fn new(epoch: i64) -> Self {
        Self { epoch, ..Self::default() }
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.epoch
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether any tag is open.
    pub(crate) fn holds(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a tag has been open since the last call.
    pub(crate) fn has_stayed_open(&mut self) -> bool {
        let stayed = self.open.first_key_value().is_some_and(|(tag, _)| *tag <= self.seen);
        self.seen = self.open.last_key_value().map_or(0, |(tag, _)| *tag);
        stayed
    }

    /// The message that has been leased for the longest time.
    pub(crate) fn oldest(&self) -> Option<&Raw> {
        self.open.values().find_map(Option::as_deref)
    }

    /// Opens a tag whose message is not handed out from here.
    pub(crate) fn note(&mut self, tag: u64) {
        self.open.insert(tag, None);
    }

    pub(crate) fn arrive(&mut self, arrived: PrefetchedMessage) {
        self.note(arrived.tag);
        self.waiting.push_back(arrived);
    }

    /// Hands out messages until there are `max`, or until their bodies would exceed `max_bytes`.
    pub(crate) fn hand_out(&mut self, some: &mut Vec<Delivery>, max: usize, max_bytes: usize) {
        let mut limit = ByteLimit::new(max_bytes);
        for before in &*some {
            limit.admits(before.message.body.len());
        }
        while some.len() < max
            && let Some(next) = self.waiting.front()
            && limit.admits(next.message.body.len())
            && let Some(PrefetchedMessage { tag, raw, message }) = self.waiting.pop_front()
        {
            self.hold(tag, raw);
            let receipt = Receipt::from_numbers([tag.cast_signed(), self.epoch, 0]);
            some.push(Delivery::new(message, receipt, None));
        }
    }

    /// Takes all prefetched messages.
    pub(crate) fn take_waiting(&mut self) -> Vec<PrefetchedMessage> {
        self.waiting.drain(..).collect()
    }

    /// Ends a lease; its tag stays open until it is acknowledged. `None` for a stale receipt.
    pub(crate) fn take(&mut self, receipt: &Receipt) -> Option<(u64, Box<Raw>)> {
        let tag = self.tag(receipt)?;
        self.open.get_mut(&tag)?.take().map(|raw| (tag, raw))
    }

    /// Leases a tag: for the first time, or again after a failed settlement.
    pub(crate) fn hold(&mut self, tag: u64, raw: Box<Raw>) {
        if let Some(held) = self.open.get_mut(&tag) {
            *held = Some(raw);
        }
    }

    /// Whether the lease of this receipt is held.
    pub(crate) fn is_held(&self, receipt: &Receipt) -> bool {
        let open = self.tag(receipt).and_then(|tag| self.open.get(&tag));
        open.is_some_and(Option::is_some)
    }

    fn tag(&self, receipt: &Receipt) -> Option<u64> {
        let [tag, epoch, _] = receipt.numbers()?;
        (epoch == self.epoch).then_some(tag.cast_unsigned())
    }

    /// Closes tags; returns how to acknowledge them.
    pub(crate) fn acks(&mut self, mut tags: Vec<u64>) -> Vec<Ack> {
        tags.retain(|tag| self.open.remove(tag).is_some());
        acknowledgements::group(tags, self.open.first_key_value().map(|(tag, _)| *tag))
    }

    /// Closes a tag that was rejected or requeued.
    pub(crate) fn forget(&mut self, tag: u64) {
        self.open.remove(&tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_open(tags: &[u64]) -> Leases {
        let mut leases = Leases::new(1);
        tags.iter().for_each(|tag| leases.note(*tag));
        leases
    }

    #[test]
    fn tags_that_are_not_open_are_not_acknowledged() {
        assert_eq!(with_open(&[]).acks(vec![7]), []);
        let acks = with_open(&[2, 5, 9]).acks(vec![5, 2, 3]);
        assert_eq!(acks, [Ack { tag: 5, multiple: true }]);
    }

    #[test]
    fn a_tag_is_acknowledged_once() {
        let mut leases = with_open(&[1, 2]);
        assert_eq!(leases.acks(vec![1]).len(), 1);
        assert_eq!(leases.acks(vec![1]), []);
        leases.forget(2);
        assert!(!leases.holds());
    }

    #[test]
    fn a_tag_that_stays_open_is_noticed_at_the_second_look() {
        let mut leases = with_open(&[1, 2]);
        assert!(!leases.has_stayed_open(), "they have just arrived");
        leases.acks(vec![1]);
        leases.note(3);
        assert!(leases.has_stayed_open(), "the second is still there");
        leases.acks(vec![2]);
        leases.note(4);
        assert!(leases.has_stayed_open(), "the third is still there");
        leases.acks(vec![3, 4]);
        leases.note(5);
        assert!(!leases.has_stayed_open());
        leases.acks(vec![5]);
        assert!(!leases.has_stayed_open());
    }

    #[test]
    fn a_receipt_of_another_channel_finds_nothing() {
        let mut leases = with_open(&[1]);
        assert!(leases.take(&Receipt::from_numbers([1, 2, 0])).is_none());
        assert!(!leases.is_held(&Receipt::from_numbers([1, 1, 0])), "not handed out");
    }
}
