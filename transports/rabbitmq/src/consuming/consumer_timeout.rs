//! The broker's consumer timeout: it ends the lease of a slow handler, and no other.
//!
//! When a message is not acknowledged within the consumer timeout, the broker closes the channel and redelivers
//! everything that is prefetched or leased on it. So a channel with a message that has been there for an eighth of the
//! timeout is retired: its consumer is cancelled, prefetched messages go back to the queue, and a new channel consumes.
//! The retired one stays open to settle what is leased on it. If the broker closes it, a lease is lost only if it is
//! older than three quarters of the timeout. If the broker's timeout is longer than we assume, a retired channel lives until its
//! last lease is settled. The channel of the quarantine has one lease at a time, and is not retired.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bezoar_core::Reason;
use tokio::{sync::Notify, time::sleep};

use crate::{
    consuming::{
        consumer_channel::Forgotten, consumer_pair::ConsumerPair, leases::Leases,
        queue_consumer::Source,
    },
    wire::{self, Raw},
};

/// A channel is retired when a message has been on it for between one and two of so many parts of the timeout.
const PARTS: u32 = 8;
/// The pause between two looks if the timeout is absurdly short.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// How many messages that the timeout has ended are remembered until they are redelivered.
const ENDED_LIMIT: usize = 64;

/// Retires channels in time, for as long as the consumers exist.
pub(crate) async fn retire_slow_channels(
    pair: Weak<ConsumerPair>,
    timeouts: Arc<ConsumerTimeouts>,
) {
    loop {
        let pause = sleep((timeouts.timeout() / PARTS).max(SHORTEST_PAUSE));
        let is_due = tokio::select! {
            () = timeouts.changed.notified() => false,
            () = pause => true,
        };
        let Some(pair) = pair.upgrade() else { return };
        if is_due {
            pair.forget_retired_channels().await;
            pair.retire_slow_channel().await;
        }
    }
}

/// The consumer timeout, and the messages that it has ended.
#[derive(Debug)]
pub(crate) struct ConsumerTimeouts {
    /// The shortest timeout that we know of.
    millis: AtomicU64,
    /// Notified when the timeout is shortened, and when the consumers are gone.
    pub(crate) changed: Notify,
    /// Digests of messages whose leases it has ended, and which were not redelivered yet.
    ended: Mutex<VecDeque<String>>,
}

impl ConsumerTimeouts {
    pub(crate) fn new(timeout: Duration) -> Self {
        let (changed, ended) = (Notify::new(), Mutex::default());
        Self { millis: AtomicU64::new(millis(timeout)), changed, ended }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }

    /// Learns of a timeout, which may be shorter than what was known. One that is too short only costs a new channel more
    /// often.
    pub(crate) fn shorten(&self, timeout: Duration) {
        if self.millis.fetch_min(millis(timeout), Ordering::SeqCst) > millis(timeout) {
            self.changed.notify_one();
        }
    }

    fn ended(&self, raw: &Raw) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.truncate(ENDED_LIMIT - 1);
        ended.push_front(wire::digest(raw));
    }

    /// How many leases of a redelivered message the timeout has ended, as far as it is known.
    pub(crate) fn count(&self, raw: &Raw) -> u32 {
        wire::timeouts(raw).saturating_add(self.take_ended(raw).into())
    }

    fn take_ended(&self, raw: &Raw) -> bool {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_empty() {
            return false; // the usual case costs no digest
        }
        let digest = wire::digest(raw);
        let found = ended.iter().position(|it| *it == digest);
        found.and_then(|at| ended.remove(at)).is_some()
    }
}

fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// The reason of a dead letter; says so if the timeout has ended deliveries without an outcome.
pub(crate) fn explained(reason: &Reason, timeouts: u32) -> Reason {
    match timeouts {
        1.. if *reason.code() == Reason::MAX_DELIVERIES => {
            let text =
                format!("{reason}, {timeouts} of them ended by the broker's consumer timeout");
            Reason::new(reason.code().clone(), text)
        }
        _ => reason.clone(),
    }
}

impl ConsumerPair {
    async fn retire_slow_channel(&self) {
        let _control = self.control.lock().await;
        let channel = &self.work.channel;
        if !channel.leases(Leases::has_stayed_open) || !channel.can_retire() {
            return;
        }
        self.stop(Source::Work).await;
        self.return_prefetched(Source::Work).await;
        if channel.live_channel().is_some() {
            tracing::debug!(queue = %self.queue, "a handler is slow; consuming on another channel");
            channel.retire();
        }
        self.arrived.notify_waiters();
    }

    /// Closes retired channels on which everything was settled, and remembers what the broker took back with others.
    pub(crate) async fn forget_retired_channels(&self) {
        for forgotten in self.work.channel.forget_retired() {
            match forgotten {
                Forgotten::Settled(channel) => self.close_channel(&channel).await,
                Forgotten::ClosedByBroker(leases) => self.timed_out(leases.oldest()),
                Forgotten::Lost => (),
            }
        }
    }

    /// The broker has closed a channel that was not retired: its timeout is shorter than we knew, or it was that of
    /// the quarantine.
    pub(crate) fn channel_timed_out(&self, source: Source, epoch: i64, failed: &lapin::Error) {
        if let Some(timeout) = timeout_in(&failed.to_string()) {
            self.timeouts.shorten(timeout);
        }
        let timed_out = |leases: &mut Leases| self.timed_out(leases.oldest());
        self.consumer(source).channel.leases_of_epoch(epoch, timed_out);
    }

    fn timed_out(&self, raw: Option<&Raw>) {
        tracing::warn!(
            queue = %self.queue,
            consumer_timeout = ?self.timeouts.timeout(),
            "a handler took longer than the broker's consumer timeout, so that its message is delivered again; shorten \
             the timeout of the handler, or raise consumer_timeout on the broker and in the options of the transport"
        );
        if let Some(raw) = raw {
            self.timeouts.ended(raw);
        }
    }
}

/// The timeout that the broker names when it closes a channel.
fn timeout_in(text: &str) -> Option<Duration> {
    let (_, value) = text.split_once("Timeout value used: ")?;
    let (millis, _) = value.split_once(' ')?;
    millis.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_read_from_what_the_broker_says() {
        let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 5000 ms. \
                    This timeout value can be configured, see consumers doc guide to learn more";
        assert_eq!(timeout_in(text), Some(Duration::from_secs(5)));
        assert_eq!(timeout_in("PRECONDITION_FAILED - unknown delivery tag 1"), None);
        let timeouts = ConsumerTimeouts::new(Duration::from_secs(60));
        for (learned, expected) in [(5, 5), (30, 5)] {
            timeouts.shorten(Duration::from_secs(learned));
            assert_eq!(timeouts.timeout(), Duration::from_secs(expected));
        }
    }

    #[test]
    fn only_deliveries_without_an_outcome_are_explained() {
        let lost = explained(&Reason::max_deliveries(5), 4).to_string();
        assert_eq!(
            lost,
            "delivered 5 times without an outcome, 4 of them ended by the broker's consumer timeout"
        );
        assert_eq!(explained(&Reason::max_deliveries(5), 0), Reason::max_deliveries(5));
        assert_eq!(explained(&Reason::undecodable(), 1), Reason::undecodable());
    }
}
