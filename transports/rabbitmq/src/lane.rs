//! What a subscription does between `receive` and `settle`: handing out, pausing, and giving back.
//!
//! The broker prefetches only while somebody receives. After a while without a `receive` both consumers (see
//! `consumer.rs`) are cancelled, and what nobody was given goes back if another consumer is there to take it.
//! Ordinary messages and quarantined ones wait apart and are handed out side by side, so that neither holds
//! up the other: a quarantined one takes one place of a batch, and every other turn where there is one place.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bezoar_core::{Delivery, Invalid, QueueName, Receipt, SubscribeOptions, TransportError};
use lapin::{options::QueueDeclareOptions, types::FieldTable};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use crate::{
    consumer::{QueueConsumer, Source},
    leases::Arrived,
    publisher::{Publication, Published},
    topology,
    transport::Inner,
    wire::{self, Raw},
};

/// For how long messages that came lie unseen while nobody receives.
const LULL: Duration = Duration::from_millis(5);
const SOURCES: [Source; 2] = [Source::Quarantine, Source::Work];

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) inner: Arc<Inner>,
    pub(crate) queue: QueueName,
    pub(crate) options: SubscribeOptions,
    /// Rung when something has arrived, a quarantined one was settled, or a channel was lost.
    pub(crate) arrived: Notify,
    pub(crate) work: QueueConsumer,
    pub(crate) quarantine: QueueConsumer,
    /// Read while copies are stored and their originals acknowledged; see `quarantine.rs`.
    pub(crate) moves: tokio::sync::RwLock<()>,
    last_receive: Mutex<Instant>,
    /// What went wrong in the background, if it is nothing that passes by itself.
    fault: Mutex<Option<TransportError>>,
    /// Held while consumers are started or stopped together.
    control: Arc<tokio::sync::Mutex<()>>,
    receivers: AtomicUsize,
    /// Whether messages that were prefetched lay until the consumers were paused: those who take them are slow.
    unused: AtomicBool,
    /// Whether a quarantined message was the last to be handed out.
    quarantined_last: AtomicBool,
    /// Rung when somebody begins to receive.
    wanted: Notify,
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
            quarantine: QueueConsumer::new(topology::quarantine_queue(&queue)?),
            work: QueueConsumer::new(queue.as_str().to_owned()),
            inner,
            queue,
            options,
            arrived: Notify::new(),
            moves: tokio::sync::RwLock::default(),
            last_receive: Mutex::new(Instant::now()),
            fault: Mutex::default(),
            control: Arc::default(),
            receivers: AtomicUsize::new(0),
            unused: AtomicBool::new(false),
            quarantined_last: AtomicBool::new(false),
            wanted: Notify::new(),
        });
        lane.inner.register(&lane);
        Ok(lane)
    }

    /// Where a delivery came from.
    pub(crate) fn source_of(&self, receipt: &Receipt) -> Source {
        match *receipt {
            Receipt::Numbered { token, .. } if token == self.quarantine.line.epoch() => {
                Source::Quarantine
            }
            _ => Source::Work,
        }
    }

    /// Hands out at most `max` that came. The quarantine's prefetch lets at most one of it be out at a time.
    pub(crate) fn hand_out(&self, max: usize) -> Vec<Delivery> {
        let work_first = max == 1 && self.quarantined_last.load(Ordering::SeqCst);
        let order = if work_first { [Source::Work, Source::Quarantine] } else { SOURCES };
        let mut some = Vec::new();
        for source in order {
            let before = some.len();
            let line = &self.consumer(source).line;
            line.leases(|leases| leases.hand_out(&mut some, max, self.options.max_bytes));
            if some.len() > before {
                self.quarantined_last.store(source == Source::Quarantine, Ordering::SeqCst);
            }
        }
        some
    }

    /// How many messages came and were given to nobody.
    pub(crate) fn waiting(&self) -> usize {
        self.consumers().map(|it| it.line.leases(|leases| leases.waiting())).iter().sum()
    }

    fn consumers(&self) -> [&QueueConsumer; 2] {
        SOURCES.map(|source| self.consumer(source))
    }

    pub(crate) fn begin_receive(&self) -> Receiving<'_> {
        self.receivers.fetch_add(1, Ordering::SeqCst);
        self.wanted.notify_waiters();
        Receiving(self)
    }

    /// Waits until somebody receives, but not for long. Meanwhile more arrive, and nobody is woken for each.
    pub(crate) async fn until_wanted(&self) {
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

    pub(crate) fn has_fault(&self) -> bool {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).is_some()
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

    /// Sees to it that the broker sends. Where the quarantine is missing nothing is fetched from the work queue
    /// either: a suspect would have nowhere to go. Where it is only out of reach the next `receive` tries again.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<(), TransportError> {
        let _control = self.control.lock().await;
        self.channel(Source::Work).await?;
        match self.start_watched(Source::Quarantine).await {
            Err(failed) if !failed.is_transient() => Err(failed),
            _ => self.start_watched(Source::Work).await,
        }
    }

    async fn start_watched(self: &Arc<Self>, source: Source) -> Result<(), TransportError> {
        if self.start(source).await? {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
        Ok(())
    }

    /// Restarts the quarantine's consumer where ordinary messages, always at hand, keep `receive` from it.
    pub(crate) fn resume_quarantine(self: &Arc<Self>) {
        if !self.quarantine.is_stopped() {
            return;
        }
        let Ok(control) = self.control.clone().try_lock_owned() else { return };
        let lane = self.clone();
        tokio::spawn(async move {
            match lane.start_watched(Source::Quarantine).await {
                Err(failed) if !failed.is_transient() => lane.set_fault(failed),
                Err(_) => sleep(LULL).await,
                Ok(()) => (),
            }
            drop(control);
        });
    }

    /// How many the broker may send ahead: half as many once some lay unused.
    pub(crate) fn prefetch(&self) -> u16 {
        let most = self.options.prefetch.get();
        let most = if self.unused.load(Ordering::SeqCst) { most.div_ceil(2) } else { most };
        u16::try_from(most).unwrap_or(u16::MAX)
    }

    /// The work queue has a new channel. Whoever subscribed made sure that dead letters are kept; after a
    /// reconnect the broker may be another.
    pub(crate) async fn begins_anew(&self, is_first: bool) -> Result<(), TransportError> {
        if !is_first {
            self.inner.ensure_set_aside(&self.queue, "receive").await?;
        }
        self.unused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// The work queue first: what it sends meanwhile would be taken for unused.
    async fn stop_all(&self) {
        self.stop(Source::Work).await;
        self.stop(Source::Quarantine).await;
    }

    /// Pauses an idle lane. Says whether there is nothing left to watch.
    async fn pause(&self) -> bool {
        let _control = self.control.lock().await;
        if !self.is_idle() {
            return false;
        }
        self.stop_all().await;
        if self.waiting() == 0 {
            return true;
        }
        if !self.is_idle() {
            return false; // somebody began to receive meanwhile, and takes them
        }
        self.unused.store(true, Ordering::SeqCst);
        if self.others_consume().await {
            self.give_back().await;
            return true;
        }
        false
    }

    async fn others_consume(&self) -> bool {
        let Some(channel) = self.work.line.live_channel() else { return false };
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let look =
            channel.queue_declare(self.queue.as_str().into(), passive, FieldTable::default());
        let found = self.inner.consuming.answered(look, "receive").await;
        found.is_ok_and(|found| found.is_ok_and(|queue| queue.consumer_count() > 0))
    }

    /// Gives back what was not handed out. As new copies, because the broker would flag the old ones as
    /// redelivered, and what reached nobody must not count as an acquisition.
    async fn give_back(&self) {
        for source in SOURCES {
            let line = &self.consumer(source).line;
            let (epoch, waiting) = line.leases(|leases| (leases.epoch(), leases.take_waiting()));
            let copy = |it: &Arrived| {
                self.publication(source, &it.raw, wire::returned(&it.raw, &it.message))
            };
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

    /// A copy for one of the two queues.
    pub(crate) fn publication(
        &self,
        to: Source,
        raw: &Raw,
        properties: lapin::BasicProperties,
    ) -> Publication {
        let key = self.consumer(to).name.as_str().into();
        Publication { exchange: "".into(), key, properties, body: raw.body.clone() }
    }

    /// Gives back everything that was not handed out, at once; the rest is done in the background.
    pub(crate) async fn close(self: Arc<Self>) {
        {
            let _control = self.control.lock().await;
            self.stop_all().await;
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
            let _control = self.control.lock().await;
            self.stop_all().await;
            for QueueConsumer { line, .. } in self.consumers() {
                let (epoch, waiting) =
                    line.leases(|leases| (leases.epoch(), leases.take_waiting()));
                line.nack(epoch, &waiting.iter().map(|it| it.tag).collect::<Vec<_>>()).await;
            }
        }
        if self.consumers().iter().any(|it| it.line.leases(|leases| leases.holds())) {
            sleep(self.options.lease).await;
        }
        for QueueConsumer { line, .. } in self.consumers() {
            let channel = line.live_channel();
            line.lose();
            if let Some(channel) = channel {
                let close = channel.close(200, "closed".into());
                let _ = self.inner.consuming.answered(close, "close").await;
            }
        }
    }
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
