//! A channel, and what is held on it: answering the broker.

use std::sync::{
    LazyLock, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use bezoar_core::{ErrorKind, TransportError};
use lapin::{
    Channel,
    options::{BasicAckOptions, BasicNackOptions},
};

use crate::{
    error::{error, from_lapin},
    leases::Leases,
    link::OwnChannel,
};

/// Each channel of this process has a number of its own, unlike those of other processes.
static NEXT_EPOCH: LazyLock<AtomicI64> =
    LazyLock::new(|| AtomicI64::new((rand::random::<u32>() as i64) << 31));

#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    /// Held from deciding how to answer until it is written. Otherwise one that acknowledges all up to a tag
    /// could overtake the answer to a single tag below it, and acknowledge what was refused.
    answering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    leases: Leases,
    channel: Option<Channel>,
}

/// A question whose answer must be heard.
pub(crate) struct Asked<'a> {
    line: &'a Line,
    channel: Option<Channel>,
}

impl Asked<'_> {
    /// It was heard.
    pub(crate) fn answered(mut self) {
        self.channel = None;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.line.lose();
            drop(OwnChannel::from(channel));
        }
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what is held.
    pub(crate) fn leases<T>(&self, look: impl FnOnce(&mut Leases) -> T) -> T {
        look(&mut self.lock().leases)
    }

    /// Changes what is held on the channel of `epoch`; nothing if there is another by now.
    pub(crate) fn leases_of(&self, epoch: i64, change: impl FnOnce(&mut Leases)) {
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

    /// Forgets everything that was held: the broker has it again, or will.
    pub(crate) fn lose(&self) {
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::SeqCst);
        *self.lock() = State { leases: Leases::new(epoch), channel: None };
    }

    /// Goes on with a channel on which nothing is held.
    pub(crate) fn begin(&self, channel: Channel) {
        self.lock().channel = Some(channel);
    }

    /// To be held while the broker is asked for messages on the line's channel, or to stop sending them. If nobody waits
    /// for the answer any more, the channel ends: what it brings would be on it, unknown to us, and acknowledged
    /// together with others.
    pub(crate) fn asking(&self, channel: &Channel) -> Asked<'_> {
        Asked { line: self, channel: Some(channel.clone()) }
    }

    /// Acknowledges tags.
    pub(crate) async fn ack(&self, epoch: i64, tags: Vec<u64>) -> Result<(), TransportError> {
        let _turn = self.answering.lock().await;
        let (acks, channel) = self.answer(epoch, |leases| leases.acks(tags))?;
        for ack in acks {
            let options = BasicAckOptions { multiple: ack.multiple };
            let acked = channel.basic_ack(ack.tag, options).await;
            acked.map_err(|source| from_lapin(&source, "settle"))?;
        }
        Ok(())
    }

    /// Hands tags back to the broker, which will flag them as redelivered.
    pub(crate) async fn nack(&self, epoch: i64, tags: &[u64]) {
        // On a channel that is gone all were handed back with it.
        let _ = self.refuse(epoch, tags, BasicNackOptions { requeue: true, multiple: false }).await;
    }

    /// Has the broker set tags aside.
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
        for tag in tags {
            let refused = channel.basic_nack(*tag, options).await;
            refused.map_err(|source| from_lapin(&source, "settle"))?;
        }
        Ok(())
    }

    /// What to answer, and on which channel; an old epoch's is gone.
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
