//! A subscription's work: consuming, pausing, and what arrives.
//!
//! The broker sends ahead only while somebody asks. After a while without a `receive` the consumer is
//! cancelled, and what nobody was given goes back if another consumer is there to take it.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar_core::{Delivery, Invalid, QueueName, Receipt, SubscribeOptions, TransportError};
use futures_util::StreamExt;
use lapin::{
    Channel, Consumer,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions},
    types::{FieldTable, ShortString},
};
use tokio::{
    sync::Notify,
    task::{JoinHandle, yield_now},
    time::{Instant, sleep, timeout},
};

use crate::{
    alone::{Alone, Suspect},
    error::{from_lapin, of_queue, unreadable},
    leases::Arrived,
    line::Line,
    publisher::{Publication, Published},
    topology,
    transport::Inner,
    wire::{self, Raw},
};

/// How many messages are taken in together.
const ARRIVALS: usize = 256;
/// For how long messages that came lie unseen while nobody receives.
const LULL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) inner: Arc<Inner>,
    pub(crate) queue: QueueName,
    pub(crate) options: SubscribeOptions,
    /// Rung when something has arrived, or the channel was lost.
    pub(crate) arrived: Notify,
    /// Where the broker sends ahead.
    pub(crate) ahead: Line,
    /// Where messages come one by one.
    pub(crate) alone: Alone,
    last_receive: Mutex<Instant>,
    /// What went wrong in the background, if it is nothing that passes by itself.
    fault: Mutex<Option<TransportError>>,
    /// Held while the consumer is started or stopped, so that neither is done twice.
    control: tokio::sync::Mutex<Option<Consuming>>,
    receivers: AtomicUsize,
    /// Whether messages that were sent ahead lay until the lane was paused: those who take them are slow.
    unused: AtomicBool,
    /// Rung when somebody begins to receive.
    wanted: Notify,
}

#[derive(Debug)]
struct Consuming {
    tag: ShortString,
    pump: JoinHandle<()>,
    /// Set before who waits is woken; the task itself is finished only a moment later.
    ended: Arc<AtomicBool>,
}

/// Somebody is waiting for messages, as long as it lives.
pub(crate) struct Receiving<'a>(&'a Lane);

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        *self.0.last_receive.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.receivers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Lane {
    pub(crate) fn new(
        inner: Arc<Inner>,
        queue: QueueName,
        options: SubscribeOptions,
    ) -> Result<Arc<Self>, Invalid> {
        let lane = Arc::new(Self {
            alone: Alone::new(topology::alone_queue(&queue)?),
            inner,
            queue,
            options,
            arrived: Notify::new(),
            ahead: Line::default(),
            last_receive: Mutex::new(Instant::now()),
            fault: Mutex::default(),
            control: tokio::sync::Mutex::new(None),
            receivers: AtomicUsize::new(0),
            unused: AtomicBool::new(false),
            wanted: Notify::new(),
        });
        lane.inner.register(&lane);
        Ok(lane)
    }

    /// Where a delivery came from.
    pub(crate) fn line_of(&self, receipt: &Receipt) -> &Line {
        match *receipt {
            Receipt::Numbered { token, .. } if token == self.alone.line.epoch() => &self.alone.line,
            _ => &self.ahead,
        }
    }

    /// Hands out one that is to be run alone, if one came.
    pub(crate) fn hand_out_alone(&self) -> Vec<Delivery> {
        self.alone.line.leases(|leases| leases.hand_out(1, usize::MAX))
    }

    /// Hands out at most `max` of those that were sent ahead.
    pub(crate) fn hand_out(&self, max: usize) -> Vec<Delivery> {
        self.ahead.leases(|leases| leases.hand_out(max, self.options.max_bytes))
    }

    /// How many messages came and were given to nobody.
    pub(crate) fn waiting(&self) -> usize {
        self.lines().map(|line| line.leases(|leases| leases.waiting())).iter().sum()
    }

    fn lines(&self) -> [&Line; 2] {
        [&self.alone.line, &self.ahead]
    }

    pub(crate) fn begin_receive(&self) -> Receiving<'_> {
        self.receivers.fetch_add(1, Ordering::SeqCst);
        self.wanted.notify_waiters();
        Receiving(self)
    }

    /// Waits until somebody receives, but not for long. Meanwhile more arrive, and nobody is woken for each.
    async fn until_wanted(&self) {
        let mut wanted = std::pin::pin!(self.wanted.notified());
        wanted.as_mut().enable();
        match self.receivers.load(Ordering::SeqCst) {
            0 => drop(timeout(LULL, wanted).await),
            _ => yield_now().await, // whoever took these goes first
        }
    }

    /// What must be told before going on, once.
    pub(crate) fn take_fault(&self) -> Option<TransportError> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn set_fault(&self, fault: TransportError) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        self.arrived.notify_waiters();
    }

    fn is_idle(&self) -> bool {
        let last = *self.last_receive.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = last.elapsed() >= self.inner.options.idle;
        quiet && self.receivers.load(Ordering::SeqCst) == 0
    }

    /// Sees to it that the broker sends.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<(), TransportError> {
        let mut control = self.control.lock().await;
        if control.as_ref().is_some_and(|it| !it.ended.load(Ordering::SeqCst)) {
            return Ok(());
        }
        *control = None;
        let channel = self.channel().await?;
        self.limit(&channel).await?;
        let epoch = self.ahead.epoch();
        let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
        let consume = channel.basic_consume(queue, "".into(), options, FieldTable::default());
        let asked = self.ahead.asking(&channel);
        let consumer = self.inner.consuming.answered(consume, "receive").await?;
        asked.answered();
        // What cannot be read may be there before the answer to this is.
        let consumer = consumer.map_err(|source| {
            unreadable(&source).unwrap_or_else(|| of_queue(&source, &self.queue, "receive"))
        })?;
        let (tag, ended) = (consumer.tag(), Arc::new(AtomicBool::new(false)));
        let pump = tokio::spawn(pump(self.clone(), consumer, epoch, ended.clone()));
        tokio::spawn(watch(Arc::downgrade(self)));
        *control = Some(Consuming { tag, pump, ended });
        Ok(())
    }

    /// How many the broker may send ahead: half as many once some lay unused.
    async fn limit(&self, channel: &Channel) -> Result<(), TransportError> {
        let most = self.options.prefetch.get();
        let most = if self.unused.load(Ordering::SeqCst) { most.div_ceil(2) } else { most };
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        let limit = channel.basic_qos(most, BasicQosOptions::default());
        let limited = self.inner.consuming.answered(limit, "receive").await?;
        limited.map_err(|source| from_lapin(&source, "receive"))
    }

    /// The channel, or a new one with nothing held on it.
    async fn channel(&self) -> Result<Channel, TransportError> {
        if let Some(channel) = self.ahead.live_channel() {
            return Ok(channel);
        }
        let is_first = self.ahead.epoch() == 0;
        self.ahead.lose();
        let channel = self.inner.consuming.channel("receive").await?;
        if !is_first {
            // Whoever subscribed made sure of it; after a reconnect the broker may be another.
            self.inner.ensure_set_aside(&self.queue, "receive").await?;
        }
        self.unused.store(false, Ordering::SeqCst);
        self.ahead.begin(channel.clone());
        Ok(channel)
    }

    /// Takes in what came. Who may have taken a process along is set apart.
    fn arrive(self: &Arc<Self>, epoch: i64, deliveries: Vec<lapin::message::Delivery>) {
        let now = self.inner.options.clock.now();
        let mut suspects = Vec::new();
        self.ahead.leases_of(epoch, |leases| {
            for delivery in deliveries {
                let (tag, redelivered) = (delivery.delivery_tag, delivery.redelivered);
                let raw = Box::new(Raw::from(delivery));
                let message = wire::read(&raw, now);
                let arrived = Arrived { tag, raw, message };
                if redelivered || arrived.message.ledger.without_outcome() > 0 {
                    leases.note(tag);
                    suspects.push(Suspect { arrived, redelivered });
                } else {
                    leases.arrive(arrived);
                }
            }
        });
        self.arrived.notify_waiters();
        if !suspects.is_empty() {
            let lane = self.clone();
            tokio::spawn(async move { lane.set_apart(&lane.ahead, epoch, suspects).await });
        }
    }

    /// Stops the broker from sending, and waits for what is on its way.
    async fn stop(&self, control: &mut Option<Consuming>) {
        let Some(Consuming { tag, pump, .. }) = control.take() else { return };
        if let Some(channel) = self.ahead.live_channel() {
            let asked = self.ahead.asking(&channel);
            let stopping = async {
                let _ = channel.basic_cancel(tag, BasicCancelOptions::default()).await;
                let _ = pump.await;
            };
            // A channel that does not answer is ended, and its messages return.
            if self.inner.consuming.answered(stopping, "receive").await.is_ok() {
                asked.answered();
            }
        }
    }

    /// Pauses an idle lane. Says whether there is nothing left to watch.
    async fn pause(&self) -> bool {
        let mut control = self.control.lock().await;
        if !self.is_idle() {
            return false;
        }
        self.stop(&mut control).await;
        if self.waiting() == 0 {
            return true;
        }
        self.unused.store(true, Ordering::SeqCst);
        if self.others_consume().await {
            self.give_back().await;
            return true;
        }
        false
    }

    async fn others_consume(&self) -> bool {
        let Some(channel) = self.ahead.live_channel() else { return false };
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let look =
            channel.queue_declare(self.queue.as_str().into(), passive, FieldTable::default());
        let found = self.inner.consuming.answered(look, "receive").await;
        found.is_ok_and(|found| found.is_ok_and(|queue| queue.consumer_count() > 0))
    }

    /// Gives back what was not handed out. As new copies, because the broker would flag the old ones as
    /// redelivered, and what reached nobody must not count as an acquisition.
    async fn give_back(&self) {
        for line in self.lines() {
            let (epoch, waiting) = line.leases(|leases| (leases.epoch(), leases.take_waiting()));
            let copy = |it: &Arrived| self.to_queue(&it.raw, wire::returned(&it.raw, &it.message));
            let copies: Vec<_> = waiting.iter().map(copy).collect();
            let outcomes = self.inner.publisher.publish(copies, "receive").await;
            let (mut moved, mut left) = (Vec::new(), Vec::new());
            for (it, outcome) in waiting.iter().zip(outcomes) {
                let stored = matches!(outcome, Ok(Published::Stored));
                if stored { &mut moved } else { &mut left }.push(it.tag);
            }
            // If the channel was lost meanwhile, these return as well: at least once, and flagged.
            let _ = line.ack(epoch, moved).await;
            line.nack(epoch, &left).await;
        }
    }

    /// A copy for the queue itself. One under suspicion is set apart from there.
    pub(crate) fn to_queue(&self, raw: &Raw, properties: lapin::BasicProperties) -> Publication {
        Publication {
            exchange: "".into(),
            key: self.queue.as_str().into(),
            properties,
            body: raw.body.clone(),
        }
    }

    /// Gives back everything that was not handed out, at once; the rest is done in the background.
    pub(crate) async fn close(self: Arc<Self>) {
        {
            let mut control = self.control.lock().await;
            self.stop(&mut control).await;
            self.alone.end().await;
            self.give_back().await;
        }
        tokio::spawn(self.retire());
    }

    /// Ends the lane. Who still holds a message can neither settle nor extend it any more: it returns after
    /// a lease's time, when its channel is closed.
    ///
    /// What nobody was given is handed back as it is: who drops a subscription may be about to end, and a
    /// copy whose original is not acknowledged any more would be two.
    pub(crate) async fn retire(self: Arc<Self>) {
        {
            let mut control = self.control.lock().await;
            self.stop(&mut control).await;
            self.alone.end().await;
            for line in self.lines() {
                let (epoch, waiting) =
                    line.leases(|leases| (leases.epoch(), leases.take_waiting()));
                line.nack(epoch, &waiting.iter().map(|it| it.tag).collect::<Vec<_>>()).await;
            }
        }
        if self.lines().iter().any(|line| line.leases(|leases| leases.holds())) {
            sleep(self.options.lease).await;
        }
        for line in self.lines() {
            let channel = line.live_channel();
            line.lose();
            if let Some(channel) = channel {
                let close = channel.close(200, "closed".into());
                let _ = self.inner.consuming.answered(close, "close").await;
            }
        }
    }
}

/// Takes in what the broker sends, until it stops.
async fn pump(lane: Arc<Lane>, consumer: Consumer, epoch: i64, ended: Arc<AtomicBool>) {
    let mut arrivals = consumer.ready_chunks(ARRIVALS);
    let mut failed = None;
    while failed.is_none()
        && let Some(some) = arrivals.next().await
    {
        let (mut arrived, mut failures) = (Vec::with_capacity(some.len()), Vec::new());
        for it in some {
            it.map_or_else(|error| failures.push(error), |delivery| arrived.push(delivery));
        }
        lane.arrive(epoch, arrived);
        failed = failures.pop();
        lane.until_wanted().await;
    }
    if let Some(fault) = failed.as_ref().and_then(unreadable) {
        lane.set_fault(fault);
    }
    if lane.ahead.live_channel().is_none() && lane.ahead.epoch() == epoch {
        lane.ahead.lose();
    }
    ended.store(true, Ordering::SeqCst);
    lane.arrived.notify_waiters();
}

/// Pauses the lane when nobody has asked for a while.
async fn watch(lane: Weak<Lane>) {
    loop {
        let Some(idle) = lane.upgrade().map(|lane| lane.inner.options.idle) else { return };
        sleep(idle).await;
        let Some(lane) = lane.upgrade() else { return };
        if lane.is_idle() && lane.pause().await {
            return;
        }
    }
}
