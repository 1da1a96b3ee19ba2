//! Receiving and settling: from the broker's deliveries to leases, and back.

pub(crate) mod acknowledgements;
pub(crate) mod consumer_channel;
pub(crate) mod consumer_pair;
pub(crate) mod consumer_timeout;
pub(crate) mod leases;
pub(crate) mod prefetch;
pub(crate) mod quarantine;
pub(crate) mod queue_consumer;
pub(crate) mod settle;
mod stream_refusal;
pub(crate) mod subscription;
