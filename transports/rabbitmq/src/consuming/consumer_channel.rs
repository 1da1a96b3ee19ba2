//! A consumer's channel and the leases on it: acknowledging and rejecting.
//!
//! Delivery tags are valid only on their channel. So each channel has an epoch, and a receipt names the epoch and the
//! tag: a receipt of a lost channel is refused without asking the broker. Acknowledgements are written one batch at a
//! time, because `multiple` acknowledges every tag below.

use std::sync::{
    LazyLock, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use bezoar_core::{ErrorKind, TransportError};
use futures_util::future::try_join_all;
use lapin::{Channel, options::BasicNackOptions};

use crate::{
    connection::broker_connection::ChannelGuard,
    consuming::{acknowledgements, leases::Leases},
    error::{error, from_lapin},
};

/// Epochs are unique in this process, and begin at random so that those of other processes differ.
static NEXT_EPOCH: LazyLock<AtomicI64> =
    LazyLock::new(|| AtomicI64::new((rand::random::<u32>() as i64) << 31));

#[derive(Debug, Default)]
pub(crate) struct ConsumerChannel {
    state: Mutex<State>,
    /// Locked from deciding what to acknowledge until it is written. Otherwise an ack with `multiple` could overtake the
    /// nack of a lower tag, and acknowledge what was rejected.
    answering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    leases: Leases,
    channel: Option<Channel>,
}

/// A request whose reply must be received. If it is dropped before, the channel is closed.
pub(crate) struct PendingReply<'a> {
    of: &'a ConsumerChannel,
    channel: Option<Channel>,
}

impl PendingReply<'_> {
    /// The reply has arrived.
    pub(crate) fn received(mut self) {
        self.channel = None;
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.of.reset();
            drop(ChannelGuard::from(channel));
        }
    }
}

impl ConsumerChannel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the leases.
    pub(crate) fn leases<T>(&self, access: impl FnOnce(&mut Leases) -> T) -> T {
        access(&mut self.lock().leases)
    }

    /// Changes the leases of the channel with this epoch; does nothing if there is another channel by now.
    pub(crate) fn leases_of_epoch(&self, epoch: i64, change: impl FnOnce(&mut Leases)) {
        let mut state = self.lock();
        if state.leases.epoch() == epoch {
            change(&mut state.leases);
        }
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.lock().leases.epoch()
    }

    pub(crate) fn live_channel(&self) -> Option<Channel> {
        self.lock().channel.clone().filter(|channel| channel.status().connected())
    }

    /// Forgets channel and leases: the broker requeues what was leased.
    pub(crate) fn reset(&self) {
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::SeqCst);
        *self.lock() = State { leases: Leases::new(epoch), channel: None };
    }

    /// Continues with a new channel.
    pub(crate) fn attach(&self, channel: Channel) {
        self.lock().channel = Some(channel);
    }

    /// To be held during `basic.consume` and `basic.cancel`. If nobody waits for the reply any more, the channel is
    /// closed: messages of a consumer that we do not know would stay on it, and be acknowledged along with others.
    pub(crate) fn expect_reply(&self, channel: &Channel) -> PendingReply<'_> {
        PendingReply { of: self, channel: Some(channel.clone()) }
    }

    /// Acknowledges tags. [`ErrorKind::LeaseLost`] if the channel of `epoch` is gone.
    pub(crate) async fn ack(&self, epoch: i64, tags: Vec<u64>) -> Result<(), TransportError> {
        let _turn = self.answering.lock().await;
        let (acks, channel) = self.answer(epoch, |leases| leases.acks(tags))?;
        acknowledgements::write(&channel, acks)
            .await
            .map_err(|source| from_lapin(&source, "settle"))
    }

    /// Requeues tags; the broker flags them as redelivered.
    pub(crate) async fn nack(&self, epoch: i64, tags: &[u64]) {
        // If the channel is gone, the broker has requeued them already.
        let _ = self.refuse(epoch, tags, BasicNackOptions { requeue: true, multiple: false }).await;
    }

    /// Rejects tags: the broker dead-letters them.
    pub(crate) async fn reject(&self, epoch: i64, tags: &[u64]) -> Result<(), TransportError> {
        self.refuse(epoch, tags, BasicNackOptions { requeue: false, multiple: false }).await
    }

    async fn refuse(
        &self,
        epoch: i64,
        tags: &[u64],
        options: BasicNackOptions,
    ) -> Result<(), TransportError> {
        let _turn = self.answering.lock().await;
        let forget = |leases: &mut Leases| tags.iter().for_each(|tag| leases.forget(*tag));
        let ((), channel) = self.answer(epoch, forget)?;
        let refusing = tags.iter().map(|tag| channel.basic_nack(*tag, options));
        let refused = try_join_all(refusing).await;
        refused.map(|_| ()).map_err(|source| from_lapin(&source, "settle"))
    }

    /// What to acknowledge and on which channel, if `epoch` is still current.
    fn answer<T>(
        &self,
        epoch: i64,
        decide: impl FnOnce(&mut Leases) -> T,
    ) -> Result<(T, Channel), TransportError> {
        let mut state = self.lock();
        match state.channel.clone() {
            Some(channel) if state.leases.epoch() == epoch => {
                Ok((decide(&mut state.leases), channel))
            }
            _ => Err(error(ErrorKind::LeaseLost, "settle")),
        }
    }
}
