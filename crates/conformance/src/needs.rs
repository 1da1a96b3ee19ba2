//! The capabilities that cases need. Each function returns the reason to skip a case, or `None`.

use bezoar_core::{Capabilities, Counting, Leases};

pub(crate) type Need = fn(&Capabilities) -> Option<&'static str>;

pub(crate) fn ordering(can: &Capabilities) -> Option<&'static str> {
    (!can.ordering).then_some("it does not keep the order of messages")
}

pub(crate) fn no_topics(can: &Capabilities) -> Option<&'static str> {
    can.topics.then_some("it has topics")
}

pub(crate) fn scheduled(can: &Capabilities) -> Option<&'static str> {
    can.scheduled.is_none().then_some("it has no delays")
}

pub(crate) fn expiry(can: &Capabilities) -> Option<&'static str> {
    (can.leases != Leases::Expire).then_some("its leases do not expire")
}

pub(crate) fn fencing(can: &Capabilities) -> Option<&'static str> {
    (!can.fencing).then_some("a stale receipt may change something")
}

pub(crate) fn counting(can: &Capabilities) -> Option<&'static str> {
    (can.acquired == Counting::Unknown).then_some("it does not count acquisitions")
}

pub(crate) fn exact_counting(can: &Capabilities) -> Option<&'static str> {
    (can.acquired != Counting::Exact).then_some("it does not count acquisitions exactly")
}

pub(crate) fn single_copy(can: &Capabilities) -> Option<&'static str> {
    (!can.single_copy).then_some("a message may be seen in two places")
}

pub(crate) fn wakes(can: &Capabilities) -> Option<&'static str> {
    (!can.wakes).then_some("a waiting receive is not woken")
}

pub(crate) fn durable(can: &Capabilities) -> Option<&'static str> {
    (!can.durable).then_some("its messages do not survive the end of the process")
}

pub(crate) fn deduplication(can: &Capabilities) -> Option<&'static str> {
    (!can.deduplication).then_some("it does not deduplicate")
}

pub(crate) fn access(can: &Capabilities) -> Option<&'static str> {
    (!can.dead_letter_access).then_some("its dead letters can only be taken in order")
}

pub(crate) fn feed(can: &Capabilities) -> Option<&'static str> {
    (!can.dead_letter_feed).then_some("it has no feed of dead letters")
}

pub(crate) fn ordering_keys(can: &Capabilities) -> Option<&'static str> {
    (!can.ordering_keys).then_some("it does not support ordering keys")
}

pub(crate) fn time_to_live(can: &Capabilities) -> Option<&'static str> {
    (!can.time_to_live).then_some("its messages do not expire")
}
