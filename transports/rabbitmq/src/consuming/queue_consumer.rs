//! The consumer of one queue: the work queue, or its quarantine queue.
//!
//! Each has a channel of its own, so that an error that closes one (queue deleted, permission missing) leaves the
//! other's leases alone. `receive` starts both; they stop after a while without a `receive`. The broker applies a
//! prefetch limit per consumer, not per channel: a restarted consumer gets a full prefetch in addition to what is still
//! leased. For the quarantine that limit must hold, so its consumer starts only while nothing of it is leased.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bezoar_core::TransportError;
use futures_util::StreamExt;
use lapin::{
    Channel, Consumer,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions},
    types::{FieldTable, ShortString},
};
use tokio::task::JoinHandle;

use crate::{
    consuming::consumer_channel::ConsumerChannel,
    consuming::consumer_pair::ConsumerPair,
    consuming::leases::PrefetchedMessage,
    consuming::quarantine::{ArrivalAction, MessageToMove},
    error::{from_lapin, is_consumer_timeout, is_not_found, is_unreadable, unreadable},
    wire::{self, Raw, Substitutes},
};

/// How many messages are taken in at once, at most.
const ARRIVALS: usize = 256;

/// Which of a subscription's two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Work,
    Quarantine,
}

#[derive(Debug)]
pub(crate) struct QueueConsumer {
    /// The queue's name.
    pub(crate) name: String,
    pub(crate) channel: ConsumerChannel,
    /// Locked while the consumer is started or stopped, so that neither happens twice.
    running: tokio::sync::Mutex<Option<Running>>,
    /// Whether the broker sends messages, as far as we know.
    active: AtomicBool,
}

#[derive(Debug)]
struct Running {
    tag: ShortString,
    pump: JoinHandle<()>,
    /// Set before waiting receivers are notified; the task itself finishes a moment later.
    ended: Arc<AtomicBool>,
}

impl QueueConsumer {
    pub(crate) fn new(name: String) -> Self {
        let (channel, running) = (ConsumerChannel::default(), tokio::sync::Mutex::default());
        Self { name, channel, running, active: AtomicBool::new(false) }
    }

    /// Whether the consumer could run and does not.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.active.load(Ordering::SeqCst) && !self.is_busy()
    }

    /// Whether a message is prefetched, leased or being moved on a live channel.
    fn is_busy(&self) -> bool {
        self.channel.live_channel().is_some() && self.channel.leases(|leases| leases.holds())
    }
}

impl ConsumerPair {
    pub(crate) fn consumer(&self, source: Source) -> &QueueConsumer {
        match source {
            Source::Work => &self.work,
            Source::Quarantine => &self.quarantine,
        }
    }

    /// Starts a consumer unless it runs. Returns whether it was started.
    pub(crate) async fn start(self: &Arc<Self>, source: Source) -> Result<bool, TransportError> {
        let consumer = self.consumer(source);
        let mut running = consumer.running.lock().await;
        if running.as_ref().is_some_and(|it| !it.ended.load(Ordering::SeqCst)) {
            return Ok(false);
        }
        *running = None;
        let must_wait = source == Source::Quarantine && consumer.is_busy();
        if must_wait || self.has_background_error() {
            return Ok(false); // report the error first: the same message or queue would cause it again
        }
        let channel = self.open_channel(source).await?;
        self.limit(&channel, source).await?;
        let epoch = consumer.channel.epoch();
        let started = self.consume(&channel, source).await?;
        let (tag, ended) = (started.tag(), Arc::new(AtomicBool::new(false)));
        consumer.active.store(true, Ordering::SeqCst);
        let pump = tokio::spawn(pump(self.clone(), source, started, epoch, ended.clone()));
        *running = Some(Running { tag, pump, ended });
        Ok(true)
    }

    async fn consume(&self, channel: &Channel, source: Source) -> Result<Consumer, TransportError> {
        let consumer = self.consumer(source);
        let (name, options) = (consumer.name.as_str().into(), BasicConsumeOptions::default());
        let consume = channel.basic_consume(name, "".into(), options, FieldTable::default());
        let asked = consumer.channel.expect_reply(channel);
        let started = self.connection.current().with_timeout(consume, "receive").await?;
        asked.received();
        started.map_err(|failed| match is_unreadable(&failed) {
            // A message that lapin cannot parse may arrive before the reply to `basic.consume`.
            true => self.isolated(),
            false if is_not_found(&failed) => self.missing(source),
            false => from_lapin(&failed, "receive"),
        })
    }

    /// Continues on a connection of its own, after a message that cannot be read.
    fn isolated(&self) -> TransportError {
        unreadable(self.connection.isolate(), "receive")
    }

    async fn limit(&self, channel: &Channel, source: Source) -> Result<(), TransportError> {
        let most = match source {
            Source::Work => self.prefetch(),
            Source::Quarantine => 1,
        };
        let limit = channel.basic_qos(most, BasicQosOptions::default());
        let limited = self.connection.current().with_timeout(limit, "receive").await?;
        limited.map_err(|source| from_lapin(&source, "receive"))
    }

    /// The channel, or a new one with no leases on it.
    pub(crate) async fn open_channel(&self, source: Source) -> Result<Channel, TransportError> {
        let channel = &self.consumer(source).channel;
        if let Some(live) = channel.live_channel() {
            return Ok(live);
        }
        let is_first = channel.epoch() == 0;
        channel.reset();
        let link = self.connection.current();
        let (connection, opened) =
            (link.connection("receive").await?, link.channel("receive").await?);
        if source == Source::Work {
            self.channel_opened(is_first).await?;
        }
        channel.attach(opened.clone(), connection);
        Ok(opened)
    }

    /// Takes in arrived messages: to be handed out, or first to be counted or quarantined.
    async fn arrive(
        self: &Arc<Self>,
        source: Source,
        epoch: i64,
        deliveries: Vec<lapin::message::Delivery>,
    ) {
        let now = self.inner.options.clock.now();
        let mut fresh = Vec::with_capacity(deliveries.len());
        let (mut counted, mut moving) = (Vec::new(), Vec::new());
        for delivery in deliveries {
            let (tag, flagged) = (delivery.delivery_tag, delivery.redelivered);
            let raw = Box::new(Raw::delivered(delivery, self.queue.clone()));
            let message = wire::read(&raw, Substitutes::new(now));
            let without_outcome = message.ledger.without_outcome();
            let arrived = PrefetchedMessage { tag, raw, message };
            match ArrivalAction::decide(source, flagged, without_outcome) {
                ArrivalAction::HandOut if without_outcome == 0 => fresh.push(arrived),
                ArrivalAction::HandOut => counted.push(arrived),
                ArrivalAction::Move { to, counted } => {
                    moving.push(MessageToMove { arrived, to, counted })
                }
            }
        }
        let channel = &self.consumer(source).channel;
        channel.leases_of_epoch(epoch, |leases| {
            // Record all tags before acknowledging any: `multiple` acknowledges every tag below.
            counted.iter().for_each(|it| leases.note(it.tag));
            moving.iter().for_each(|it| leases.note(it.arrived.tag));
            fresh.into_iter().for_each(|it| leases.arrive(it));
        });
        self.arrived.notify_waiters();
        self.move_all(source, epoch, moving);
        if !counted.is_empty() {
            self.wait_for_moves().await;
            if channel.epoch() != epoch {
                // Nobody is handed anything from a channel that was retired meanwhile.
                let tags: Vec<_> = counted.iter().map(|it| it.tag).collect();
                return channel.nack(epoch, &tags).await;
            }
            channel.leases_of_epoch(epoch, |leases| {
                counted.into_iter().for_each(|it| leases.arrive(it))
            });
            self.arrived.notify_waiters();
        }
    }

    /// Cancels the consumer, and waits for the messages that are on their way.
    pub(crate) async fn stop(&self, source: Source) {
        let consumer = self.consumer(source);
        let Some(Running { tag, pump, .. }) = consumer.running.lock().await.take() else { return };
        if let Some(channel) = consumer.channel.live_channel() {
            let (link, asked) =
                (self.connection.current(), consumer.channel.expect_reply(&channel));
            let cancel = channel.basic_cancel(tag, BasicCancelOptions::default());
            // A channel that does not answer is closed, and its messages are redelivered.
            if link.with_timeout(cancel, "receive").await.is_ok() {
                asked.received();
                // During an alarm the messages that have arrived may wait for copies that are being moved.
                let _ = link.with_timeout(pump, "receive").await;
            }
        }
    }
}

/// Takes in messages until the broker stops sending.
async fn pump(
    pair: Arc<ConsumerPair>,
    source: Source,
    consumer: Consumer,
    epoch: i64,
    ended: Arc<AtomicBool>,
) {
    let mut arrivals = consumer.ready_chunks(ARRIVALS);
    let mut failed = None;
    while failed.is_none()
        && let Some(some) = arrivals.next().await
    {
        let (mut arrived, mut failures) = (Vec::with_capacity(some.len()), Vec::new());
        for it in some {
            it.map_or_else(|error| failures.push(error), |delivery| arrived.push(delivery));
        }
        let sizes = arrived.iter().map(|delivery| delivery.data.len());
        if source == Source::Work && pair.prefetch.observe(sizes) {
            tokio::spawn(pair.clone().restart());
        }
        pair.arrive(source, epoch, arrived).await;
        failed = failures.pop();
        pair.wait_for_receiver().await;
    }
    // It closes the connection, and so ends both consumers: report it once.
    if source == Source::Work && failed.as_ref().is_some_and(is_unreadable) {
        pair.set_background_error(pair.isolated());
    }
    let channel = &pair.consumer(source).channel;
    if let Some(failed) = failed.as_ref().filter(|it| is_consumer_timeout(it)) {
        pair.channel_timed_out(source, epoch, failed);
    }
    if channel.live_channel().is_none() && channel.epoch() == epoch {
        channel.reset();
    }
    pair.consumer(source).active.store(false, Ordering::SeqCst);
    ended.store(true, Ordering::SeqCst);
    pair.arrived.notify_waiters();
}
