//! A consumer's channels and the leases on them: acknowledging and rejecting.
//!
//! Delivery tags are valid only on their channel. So each channel has an epoch, and a receipt names the epoch and the
//! tag: a receipt of a lost channel is refused without asking the broker. One channel at a time consumes; a retired one
//! only settles what is leased on it (see `consumer_timeout.rs`). Acknowledgements are written one batch at a time,
//! because `multiple` acknowledges every tag below.

use std::{
    iter,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use bezoar_core::{ErrorKind, Receipt, TransportError};
use futures_util::future::try_join_all;
use lapin::{
    Channel, Connection,
    options::{BasicNackOptions, ChannelFlowOptions},
};

use crate::{
    connection::broker_connection::ChannelGuard,
    consuming::{acknowledgements, leases::Leases},
    error::{error, from_lapin},
};

/// Epochs are unique in this process, and begin at random so that those of other processes differ.
static NEXT_EPOCH: LazyLock<AtomicI64> =
    LazyLock::new(|| AtomicI64::new((rand::random::<u32>() as i64) << 31));
/// How many retired channels a consumer keeps. One is retired at most every eighth of the consumer timeout, so there are
/// more than nine only if the broker's timeout is longer than ours.
const RETIRED_LIMIT: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct ConsumerChannel {
    channels: Mutex<Channels>,
    /// Locked from deciding what to acknowledge until it is written. Otherwise an ack with `multiple` could overtake the
    /// nack of a lower tag, and acknowledge what was rejected.
    answering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Channels {
    current: State,
    retired: Vec<State>,
}

impl Channels {
    /// The channel with this epoch, if it is not forgotten.
    fn of_epoch(&mut self, epoch: i64) -> Option<&mut State> {
        let all = iter::once(&mut self.current).chain(&mut self.retired);
        all.into_iter().find(|state| state.leases.epoch() == epoch)
    }
}

#[derive(Debug, Default)]
struct State {
    leases: Leases,
    channel: Option<Channel>,
    /// The connection of the channel.
    connection: Option<Arc<Connection>>,
}

impl State {
    fn live_channel(&self) -> Option<Channel> {
        self.channel.clone().filter(|channel| channel.status().connected())
    }

    /// Whether the broker has closed the channel, and not the connection.
    fn is_closed_by_broker(&self) -> bool {
        let connected = self.connection.as_ref().is_some_and(|it| it.status().connected());
        connected && self.live_channel().is_none()
    }
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
    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the leases of the channel that consumes.
    pub(crate) fn leases<T>(&self, access: impl FnOnce(&mut Leases) -> T) -> T {
        access(&mut self.lock().current.leases)
    }

    /// Changes the leases of the channel with this epoch; does nothing if it is forgotten.
    pub(crate) fn leases_of_epoch(&self, epoch: i64, change: impl FnOnce(&mut Leases)) {
        if let Some(state) = self.lock().of_epoch(epoch) {
            change(&mut state.leases);
        }
    }

    /// Reads or changes the leases of the channel with this epoch, if it is live.
    pub(crate) fn live_leases_of_epoch<T>(
        &self,
        epoch: i64,
        access: impl FnOnce(&mut Leases) -> T,
    ) -> Option<T> {
        let mut channels = self.lock();
        let state = channels.of_epoch(epoch).filter(|state| state.live_channel().is_some())?;
        Some(access(&mut state.leases))
    }

    /// Whether the lease of this receipt is held, on a channel that is live.
    pub(crate) fn is_held(&self, receipt: &Receipt) -> bool {
        let held = |[_, epoch, _]: [i64; 3]| {
            self.live_leases_of_epoch(epoch, |leases| leases.is_held(receipt))
        };
        receipt.numbers().and_then(held).unwrap_or(false)
    }

    /// Whether a message is prefetched, leased or being moved, also on a retired channel.
    pub(crate) fn holds_any(&self) -> bool {
        let channels = self.lock();
        iter::once(&channels.current).chain(&channels.retired).any(|it| it.leases.holds())
    }

    /// The epoch of the channel that consumes.
    pub(crate) fn epoch(&self) -> i64 {
        self.lock().current.leases.epoch()
    }

    /// Whether this epoch is that of a channel, perhaps a retired one, that is not forgotten.
    pub(crate) fn has_epoch(&self, epoch: i64) -> bool {
        self.lock().of_epoch(epoch).is_some()
    }

    /// The channel that consumes.
    pub(crate) fn live_channel(&self) -> Option<Channel> {
        self.lock().current.live_channel()
    }

    /// Forgets the channel that consumes, and its leases: the broker requeues what was leased.
    pub(crate) fn reset(&self) {
        self.lock().current = State { leases: Leases::new(next_epoch()), ..State::default() };
    }

    /// Continues with a new channel.
    pub(crate) fn attach(&self, channel: Channel, connection: Arc<Connection>) {
        let current = &mut self.lock().current;
        (current.channel, current.connection) = (Some(channel), Some(connection));
    }

    /// Whether another channel may be retired.
    pub(crate) fn can_retire(&self) -> bool {
        self.lock().retired.len() < RETIRED_LIMIT
    }

    /// Keeps the channel for settling what is leased on it. The next one begins without leases.
    pub(crate) fn retire(&self) {
        let mut channels = self.lock();
        let next = State { leases: Leases::new(next_epoch()), ..State::default() };
        let retired = std::mem::replace(&mut channels.current, next);
        channels.retired.push(retired);
    }

    /// Forgets retired channels on which nothing is leased any more, or which are lost.
    pub(crate) fn forget_retired(&self) -> Vec<Forgotten> {
        let mut channels = self.lock();
        let is_over = |it: &mut State| !it.leases.holds() || it.live_channel().is_none();
        channels.retired.extract_if(.., is_over).map(Forgotten::from).collect()
    }

    /// Forgets all channels. Returns those that are still open.
    pub(crate) fn forget_all(&self) -> Vec<Channel> {
        let all = std::mem::take(&mut *self.lock());
        self.reset();
        iter::once(all.current).chain(all.retired).filter_map(|it| it.live_channel()).collect()
    }

    /// To be held during `basic.consume` and `basic.cancel`. If nobody waits for the reply any more, the channel is
    /// closed: messages of a consumer that we do not know would stay on it, and be acknowledged along with others.
    pub(crate) fn expect_reply(&self, channel: &Channel) -> PendingReply<'_> {
        PendingReply { of: self, channel: Some(channel.clone()) }
    }

    /// Acknowledges tags. [`ErrorKind::LeaseLost`] if the channel of `epoch` is gone.
    pub(crate) async fn ack(&self, epoch: i64, tags: Vec<u64>) -> Result<(), TransportError> {
        self.write_acks(epoch, tags).await.map(|_| ())
    }

    /// Acknowledges tags, and waits until the broker has passed that on to the queue. An acknowledgement has no reply and
    /// may still be lost if the process dies after it was written. So another request follows, on the same channel.
    pub(crate) async fn ack_and_wait(
        &self,
        epoch: i64,
        tags: Vec<u64>,
    ) -> Result<(), TransportError> {
        if tags.is_empty() {
            return Ok(());
        }
        let channel = self.write_acks(epoch, tags).await?;
        // Changes nothing: the broker sends anyway.
        let asked = channel.channel_flow(ChannelFlowOptions { active: true }).await;
        asked.map(|_| ()).map_err(|source| from_lapin(&source, "settle"))
    }

    async fn write_acks(&self, epoch: i64, tags: Vec<u64>) -> Result<Channel, TransportError> {
        let _turn = self.answering.lock().await;
        let (acks, channel) = self.answer(epoch, |leases| leases.acks(tags))?;
        let written = acknowledgements::write(&channel, acks).await;
        written.map_err(|source| from_lapin(&source, "settle"))?;
        Ok(channel)
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

    /// What to acknowledge and on which channel, if `epoch` is not forgotten.
    fn answer<T>(
        &self,
        epoch: i64,
        decide: impl FnOnce(&mut Leases) -> T,
    ) -> Result<(T, Channel), TransportError> {
        let lost = || error(ErrorKind::LeaseLost, "settle");
        let mut channels = self.lock();
        let state = channels.of_epoch(epoch).ok_or_else(lost)?;
        let channel = state.channel.clone().ok_or_else(lost)?;
        Ok((decide(&mut state.leases), channel))
    }
}

/// A retired channel that is over.
pub(crate) enum Forgotten {
    /// Everything was settled; the channel is to be closed.
    Settled(Channel),
    /// The broker has closed the channel: the consumer timeout is over. With the leases that were lost.
    ClosedByBroker(Leases),
    /// The connection was lost.
    Lost,
}

impl From<State> for Forgotten {
    fn from(state: State) -> Self {
        match state.live_channel() {
            Some(channel) => Self::Settled(channel),
            None if state.is_closed_by_broker() => Self::ClosedByBroker(state.leases),
            None => Self::Lost,
        }
    }
}

fn next_epoch() -> i64 {
    NEXT_EPOCH.fetch_add(1, Ordering::SeqCst)
}
