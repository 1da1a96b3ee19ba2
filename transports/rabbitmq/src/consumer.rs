//! The consumers of a subscription's two queues: the work queue and its quarantine.
//!
//! Each has a channel of its own, so that what ends one (a deleted queue, a missing permission) leaves the
//! other's leases alone. Both are started by `receive` and stopped when nobody has received for a while.
//! The broker counts a prefetch per consumer, not per channel: a second consumer on a channel would bring
//! more. For the quarantine that must not be, so it is started only while nothing of it is leased.

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
    error::{from_lapin, is_not_found, unreadable},
    lane::Lane,
    leases::Arrived,
    line::Line,
    quarantine::{Arrival, Moving},
    wire::{self, Raw},
};

/// How many messages are taken in together.
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
    pub(crate) line: Line,
    /// Held while the consumer is started or stopped, so that neither is done twice.
    running: tokio::sync::Mutex<Option<Running>>,
    /// Whether the broker sends, as far as we know.
    active: AtomicBool,
}

#[derive(Debug)]
struct Running {
    tag: ShortString,
    pump: JoinHandle<()>,
    /// Set before who waits is woken; the task itself is finished only a moment later.
    ended: Arc<AtomicBool>,
}

impl QueueConsumer {
    pub(crate) fn new(name: String) -> Self {
        let (line, running) = (Line::default(), tokio::sync::Mutex::default());
        Self { name, line, running, active: AtomicBool::new(false) }
    }

    /// Whether it should run and does not.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.active.load(Ordering::SeqCst) && !self.is_busy()
    }

    /// Whether a message is leased, moved, or waits to be handed out, on a channel that lives.
    fn is_busy(&self) -> bool {
        self.line.live_channel().is_some() && self.line.leases(|leases| leases.holds())
    }
}

impl Lane {
    pub(crate) fn consumer(&self, source: Source) -> &QueueConsumer {
        match source {
            Source::Work => &self.work,
            Source::Quarantine => &self.quarantine,
        }
    }

    /// Starts a consumer that does not run. Says whether it did.
    pub(crate) async fn start(self: &Arc<Self>, source: Source) -> Result<bool, TransportError> {
        let consumer = self.consumer(source);
        let mut running = consumer.running.lock().await;
        if running.as_ref().is_some_and(|it| !it.ended.load(Ordering::SeqCst)) {
            return Ok(false);
        }
        *running = None;
        let must_wait = source == Source::Quarantine && consumer.is_busy();
        if must_wait || self.has_fault() {
            return Ok(false); // a fault is told before the same message or queue causes it again
        }
        let channel = self.channel(source).await?;
        self.limit(&channel, source).await?;
        let epoch = consumer.line.epoch();
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
        let asked = consumer.line.asking(channel);
        let started = self.inner.consuming.answered(consume, "receive").await?;
        asked.answered();
        started.map_err(|failed| match unreadable(&failed) {
            // What cannot be read may be there before the answer to this is.
            Some(unreadable) => unreadable,
            None if is_not_found(&failed) => self.missing(source),
            None => from_lapin(&failed, "receive"),
        })
    }

    async fn limit(&self, channel: &Channel, source: Source) -> Result<(), TransportError> {
        let most = match source {
            Source::Work => self.prefetch(),
            Source::Quarantine => 1,
        };
        let limit = channel.basic_qos(most, BasicQosOptions::default());
        let limited = self.inner.consuming.answered(limit, "receive").await?;
        limited.map_err(|source| from_lapin(&source, "receive"))
    }

    /// The channel, or a new one with nothing held on it.
    pub(crate) async fn channel(&self, source: Source) -> Result<Channel, TransportError> {
        let line = &self.consumer(source).line;
        if let Some(channel) = line.live_channel() {
            return Ok(channel);
        }
        let is_first = line.epoch() == 0;
        line.lose();
        let channel = self.inner.consuming.channel("receive").await?;
        if source == Source::Work {
            self.begins_anew(is_first).await?;
        }
        line.begin(channel.clone());
        Ok(channel)
    }

    /// Takes in what came: to be handed out, or to be counted or isolated first.
    async fn arrive(
        self: &Arc<Self>,
        source: Source,
        epoch: i64,
        deliveries: Vec<lapin::message::Delivery>,
    ) {
        let now = self.inner.options.clock.now();
        let (mut fresh, mut counted, mut moving) = (Vec::new(), Vec::new(), Vec::new());
        for delivery in deliveries {
            let (tag, flagged) = (delivery.delivery_tag, delivery.redelivered);
            let raw = Box::new(Raw::from(delivery));
            let message = wire::read(&raw, now);
            let without_outcome = message.ledger.without_outcome();
            let arrived = Arrived { tag, raw, message };
            match Arrival::decide(source, flagged, without_outcome) {
                Arrival::HandOut if without_outcome == 0 => fresh.push(arrived),
                Arrival::HandOut => counted.push(arrived),
                Arrival::Move { to, counted } => moving.push(Moving { arrived, to, counted }),
            }
        }
        let line = &self.consumer(source).line;
        line.leases_of(epoch, |leases| {
            // All tags are known before any is acknowledged together with those below it.
            counted.iter().for_each(|it| leases.note(it.tag));
            moving.iter().for_each(|it| leases.note(it.arrived.tag));
            fresh.into_iter().for_each(|it| leases.arrive(it));
        });
        self.arrived.notify_waiters();
        self.move_all(source, epoch, moving);
        if !counted.is_empty() {
            self.moves_end().await;
            line.leases_of(epoch, |leases| counted.into_iter().for_each(|it| leases.arrive(it)));
            self.arrived.notify_waiters();
        }
    }

    /// Stops the broker from sending, and waits for what is on its way.
    pub(crate) async fn stop(&self, source: Source) {
        let consumer = self.consumer(source);
        let Some(Running { tag, pump, .. }) = consumer.running.lock().await.take() else { return };
        if let Some(channel) = consumer.line.live_channel() {
            let asked = consumer.line.asking(&channel);
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
}

/// Takes in what the broker sends, until it stops.
async fn pump(
    lane: Arc<Lane>,
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
        lane.arrive(source, epoch, arrived).await;
        failed = failures.pop();
        lane.until_wanted().await;
    }
    // It ends the connection, and so both consumers: one of them tells.
    if source == Source::Work
        && let Some(fault) = failed.as_ref().and_then(unreadable)
    {
        lane.set_fault(fault);
    }
    let line = &lane.consumer(source).line;
    if line.live_channel().is_none() && line.epoch() == epoch {
        line.lose();
    }
    lane.consumer(source).active.store(false, Ordering::SeqCst);
    ended.store(true, Ordering::SeqCst);
    lane.arrived.notify_waiters();
}
