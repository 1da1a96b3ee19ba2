//! The two consumers of a subscription, one for the work queue and one for its quarantine queue.
//!
//! The broker prefetches only while `receive` is called. After `Options::idle` without a call both consumers (see
//! `queue_consumer.rs`) are cancelled, and prefetched messages go back to the queue if another process consumes from
//! it. Ordinary and quarantined messages wait separately and are handed out side by side, so that neither blocks the
//! other: a batch has at most one quarantined message, and a batch of one alternates between the two.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar_core::{Delivery, Invalid, QueueName, Receipt, SubscribeOptions, TransportError};
use lapin::{Channel, options::QueueDeclareOptions, types::FieldTable};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use crate::{
    connection::consumer_connection::ConsumerConnection,
    consuming::consumer_timeout::{self, ConsumerTimeouts},
    consuming::leases::PrefetchedMessage,
    consuming::prefetch::PrefetchLimit,
    consuming::queue_consumer::{QueueConsumer, Source},
    publishing::publisher::{Patience, Publication, Published, Readiness},
    topology::{self, dead_letter_route::DeadLetterRoute},
    transport::TransportState,
    wire::{self, Raw},
};

/// How long arrived messages wait for more while nobody receives.
const BATCHING_PAUSE: Duration = Duration::from_millis(5);
const SOURCES: [Source; 2] = [Source::Quarantine, Source::Work];

#[derive(Debug)]
pub(crate) struct ConsumerPair {
    pub(crate) inner: Arc<TransportState>,
    pub(crate) connection: ConsumerConnection,
    pub(crate) queue: QueueName,
    pub(crate) options: SubscribeOptions,
    /// Notified when a message arrives, a quarantined message is settled, or a channel is lost.
    pub(crate) arrived: Notify,
    pub(crate) work: QueueConsumer,
    pub(crate) quarantine: QueueConsumer,
    /// Where its dead letters go.
    pub(crate) dead: DeadLetterRoute,
    pub(crate) prefetch: PrefetchLimit,
    /// What the broker's consumer timeout has ended.
    pub(crate) timeouts: Arc<ConsumerTimeouts>,
    /// Read-locked while copies are stored and their originals acknowledged; see `quarantine.rs`.
    pub(crate) moves: tokio::sync::RwLock<()>,
    last_receive: Mutex<Instant>,
    /// An error of a background task that is not transient; the next `receive` reports it.
    background_error: Mutex<Option<TransportError>>,
    /// Locked while both consumers are started or stopped.
    pub(crate) control: Arc<tokio::sync::Mutex<()>>,
    receivers: AtomicUsize,
    /// Whether prefetched messages were still waiting when the consumers were paused: the handlers are slow.
    unused: AtomicBool,
    /// Whether the last message handed out was a quarantined one.
    quarantined_last: AtomicBool,
    /// Notified when a `receive` begins.
    receive_started: Notify,
    /// Whether a task waits to pause the consumers.
    watched: AtomicBool,
}

impl Drop for ConsumerPair {
    fn drop(&mut self) {
        self.timeouts.changed.notify_one(); // ends the task that retires channels
    }
}

/// A running `receive`, as long as this value lives.
pub(crate) struct Receiving<'a>(&'a ConsumerPair);

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        *self.0.last_receive.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.receivers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ConsumerPair {
    pub(crate) fn new(
        inner: Arc<TransportState>,
        queue: QueueName,
        options: SubscribeOptions,
    ) -> Result<Arc<Self>, Invalid> {
        let pair = Arc::new(Self {
            quarantine: QueueConsumer::new(topology::quarantine_queue(&queue)?),
            dead: DeadLetterRoute::of(&queue, &inner.options)?,
            prefetch: PrefetchLimit::new(options.prefetch.get(), &inner.options),
            timeouts: Arc::new(ConsumerTimeouts::new(inner.options.consumer_timeout)),
            work: QueueConsumer::new(queue.as_str().to_owned()),
            connection: ConsumerConnection::new(
                &inner.consuming,
                &inner.options,
                "consuming alone",
            ),
            inner,
            queue,
            options,
            arrived: Notify::new(),
            moves: tokio::sync::RwLock::default(),
            last_receive: Mutex::new(Instant::now()),
            background_error: Mutex::default(),
            control: Arc::default(),
            receivers: AtomicUsize::new(0),
            unused: AtomicBool::new(false),
            quarantined_last: AtomicBool::new(false),
            receive_started: Notify::new(),
            watched: AtomicBool::new(false),
        });
        pair.inner.register(&pair);
        let timeouts = pair.timeouts.clone();
        tokio::spawn(consumer_timeout::retire_slow_channels(Arc::downgrade(&pair), timeouts));
        Ok(pair)
    }

    /// The queue that a delivery came from.
    pub(crate) fn source_of(&self, receipt: &Receipt) -> Source {
        match receipt.numbers() {
            Some([_, epoch, _]) if epoch == self.quarantine.channel.epoch() => Source::Quarantine,
            _ => Source::Work,
        }
    }

    /// Hands out up to `max` arrived messages. The quarantine consumer's prefetch of 1 limits quarantined messages to one.
    pub(crate) fn hand_out(&self, max: usize) -> Vec<Delivery> {
        let work_first = max == 1 && self.quarantined_last.load(Ordering::SeqCst);
        let order = if work_first { [Source::Work, Source::Quarantine] } else { SOURCES };
        let mut some = Vec::new();
        for source in order {
            let before = some.len();
            let channel = &self.consumer(source).channel;
            channel.leases(|leases| leases.hand_out(&mut some, max, self.options.max_bytes));
            if some.len() > before {
                self.quarantined_last.store(source == Source::Quarantine, Ordering::SeqCst);
            }
        }
        some
    }

    /// How many messages are prefetched and not handed out.
    pub(crate) fn waiting(&self) -> usize {
        self.consumers().map(|it| it.channel.leases(|leases| leases.waiting())).iter().sum()
    }

    fn consumers(&self) -> [&QueueConsumer; 2] {
        SOURCES.map(|source| self.consumer(source))
    }

    pub(crate) fn begin_receive(&self) -> Receiving<'_> {
        self.receivers.fetch_add(1, Ordering::SeqCst);
        self.receive_started.notify_waiters();
        Receiving(self)
    }

    /// Waits a moment for a `receive`. Meanwhile more messages arrive, and are taken in together.
    pub(crate) async fn wait_for_receiver(&self) {
        let mut receive_started = std::pin::pin!(self.receive_started.notified());
        receive_started.as_mut().enable();
        match self.receivers.load(Ordering::SeqCst) {
            0 => drop(timeout(BATCHING_PAUSE, receive_started).await),
            _ => yield_now().await, // let the receiver that was just notified run first
        }
    }

    /// The error of a background task, once.
    pub(crate) fn take_background_error(&self) -> Option<TransportError> {
        self.background_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn has_background_error(&self) -> bool {
        self.background_error.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn set_background_error(&self, background_error: TransportError) {
        *self.background_error.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(background_error);
        self.arrived.notify_waiters();
    }

    fn is_idle(&self) -> bool {
        let last = *self.last_receive.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = last.elapsed() >= self.inner.options.idle;
        quiet && self.receivers.load(Ordering::SeqCst) == 0
    }

    /// Makes sure that both consumers run. Without a quarantine queue the work queue is not consumed either: a suspect
    /// would have nowhere to go. If the quarantine queue is only unavailable, the next `receive` tries again.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<(), TransportError> {
        let _control = self.control.lock().await;
        self.open_channel(Source::Work).await?;
        match self.start_watched(Source::Quarantine).await {
            Err(failed) if !failed.is_transient() => Err(failed),
            _ => self.start_watched(Source::Work).await,
        }
    }

    async fn start_watched(self: &Arc<Self>, source: Source) -> Result<(), TransportError> {
        if self.start(source).await? && !self.watched.swap(true, Ordering::SeqCst) {
            tokio::spawn(pause_when_idle(Arc::downgrade(self)));
        }
        Ok(())
    }

    /// Restarts the quarantine consumer. Needed on a busy queue: `receive` returns without calling `resume` there.
    pub(crate) fn resume_quarantine(self: &Arc<Self>) {
        if !self.quarantine.is_stopped() {
            return;
        }
        let Ok(control) = self.control.clone().try_lock_owned() else { return };
        let pair = self.clone();
        tokio::spawn(async move {
            match pair.start_watched(Source::Quarantine).await {
                Err(failed) if !failed.is_transient() => pair.set_background_error(failed),
                Err(_) => sleep(BATCHING_PAUSE).await,
                Ok(()) => (),
            }
            drop(control);
        });
    }

    /// The prefetch limit for a consumer that starts; half of it after prefetched messages were left waiting.
    pub(crate) fn prefetch(&self) -> u16 {
        let most = self.prefetch.start();
        if self.unused.load(Ordering::SeqCst) { most.div_ceil(2) } else { most }
    }

    /// Stops the work consumer, so that it starts again with another prefetch limit.
    pub(crate) async fn restart(self: Arc<Self>) {
        let _control = self.control.lock().await;
        self.stop(Source::Work).await;
        self.arrived.notify_waiters(); // the next `receive` starts it
    }

    /// Called when the work queue has a new channel. Subscribing has checked that dead letters are kept; after a
    /// reconnect the broker may be another one, so check again.
    pub(crate) async fn channel_opened(&self, is_first: bool) -> Result<(), TransportError> {
        if !is_first {
            self.inner.ensure_dead_lettering(&self.queue, "receive").await?;
        }
        self.unused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// The work queue first: messages that it sends while the other stops would count as left waiting.
    async fn stop_all(&self) {
        self.stop(Source::Work).await;
        self.stop(Source::Quarantine).await;
    }

    /// Stops both consumers if nobody receives. Returns whether there is nothing left to watch.
    async fn pause(&self) -> bool {
        let _control = self.control.lock().await;
        let is_paused = self.stop_if_idle().await;
        self.watched.store(!is_paused, Ordering::SeqCst);
        is_paused
    }

    async fn stop_if_idle(&self) -> bool {
        if !self.is_idle() {
            return false;
        }
        self.stop_all().await;
        if self.waiting() == 0 {
            return true;
        }
        if !self.is_idle() {
            return false; // a `receive` has begun meanwhile, and takes them
        }
        self.unused.store(true, Ordering::SeqCst);
        if self.others_consume().await {
            self.return_all_prefetched().await;
            return true;
        }
        false
    }

    async fn others_consume(&self) -> bool {
        let Some(channel) = self.work.channel.live_channel() else { return false };
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declare =
            channel.queue_declare(self.queue.as_str().into(), passive, FieldTable::default());
        let found = self.connection.current().with_timeout(declare, "receive").await;
        found.is_ok_and(|found| found.is_ok_and(|queue| queue.consumer_count() > 0))
    }

    async fn return_all_prefetched(&self) {
        for source in SOURCES {
            self.return_prefetched(source).await;
        }
    }

    /// Returns prefetched messages to their queue. As new copies: the broker would flag the originals as redelivered,
    /// and a message that reached no handler must not count as delivered. During an alarm the originals: copies would
    /// wait in the connection and be stored when the alarm ends, long after the originals have gone back.
    pub(crate) async fn return_prefetched(&self, source: Source) {
        let channel = &self.consumer(source).channel;
        let (epoch, waiting) = channel.leases(|leases| (leases.epoch(), leases.take_waiting()));
        if waiting.is_empty() {
            return;
        }
        if self.inner.publisher.readiness("receive").await != Readiness::Ready {
            channel.nack(epoch, &waiting.iter().map(|it| it.tag).collect::<Vec<_>>()).await;
            return;
        }
        let copy = |it: &PrefetchedMessage| {
            let properties = wire::requeued(&it.raw, &it.message);
            self.publication(
                source,
                &it.raw,
                wire::with_timeouts(properties, wire::timeouts(&it.raw)),
            )
        };
        let copies: Vec<_> = waiting.iter().map(copy).collect();
        let outcomes = self.inner.publisher.publish(copies, Patience::Limited, "receive").await;
        let (mut moved, mut left) = (Vec::new(), Vec::new());
        for (it, outcome) in waiting.iter().zip(outcomes) {
            let stored = matches!(outcome, Ok(Published::Stored));
            if stored { &mut moved } else { &mut left }.push(it.tag);
        }
        // If the channel was lost meanwhile, the originals are redelivered too, flagged: at least once.
        let _ = channel.ack(epoch, moved).await;
        channel.nack(epoch, &left).await;
    }

    /// A copy of a message for one of the two queues.
    pub(crate) fn publication(
        &self,
        to: Source,
        raw: &Raw,
        properties: lapin::BasicProperties,
    ) -> Publication {
        let key = self.consumer(to).name.as_str().into();
        Publication { exchange: "".into(), key, properties, body: raw.body.clone() }
    }

    /// Stops consuming and returns prefetched messages; leases end in the background.
    pub(crate) async fn close(self: Arc<Self>) {
        {
            let _control = self.control.lock().await;
            self.stop_all().await;
            self.return_all_prefetched().await;
        }
        tokio::spawn(self.shut_down());
    }

    /// Stops consuming. Messages that are still leased can no longer be settled or extended: they return to their
    /// queue after `SubscribeOptions::lease`, when the channel is closed.
    ///
    /// Prefetched messages are requeued by a plain nack and not copied: the process may be about to end, and a copy
    /// whose original is never acknowledged would be a duplicate.
    pub(crate) async fn shut_down(self: Arc<Self>) {
        {
            let _control = self.control.lock().await;
            self.stop_all().await;
            for QueueConsumer { channel, .. } in self.consumers() {
                let (epoch, waiting) =
                    channel.leases(|leases| (leases.epoch(), leases.take_waiting()));
                channel.nack(epoch, &waiting.iter().map(|it| it.tag).collect::<Vec<_>>()).await;
            }
        }
        if self.consumers().iter().any(|it| it.channel.holds_any()) {
            sleep(self.options.lease).await;
        }
        for consumer in self.consumers() {
            for channel in consumer.channel.forget_all() {
                self.close_channel(&channel).await;
            }
        }
    }

    pub(crate) async fn close_channel(&self, channel: &Channel) {
        let close = channel.close(200, "closed".into());
        let _ = self.connection.current().with_timeout(close, "close").await;
    }
}

/// Stops both consumers after a while without a `receive`.
async fn pause_when_idle(pair: Weak<ConsumerPair>) {
    loop {
        let Some(idle) = pair.upgrade().map(|pair| pair.inner.options.idle) else { return };
        sleep(idle).await;
        let Some(pair) = pair.upgrade() else { return };
        if pair.is_idle() && pair.pause().await {
            return;
        }
    }
}
