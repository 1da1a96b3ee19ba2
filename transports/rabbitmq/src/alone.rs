//! Messages that are run alone.
//!
//! One that was handed out before and came back without an outcome may have taken its process along, and may
//! do so again. Its count is raised in a copy that is stored before the original is acknowledged; the copy
//! goes to a queue of its own, from which messages are taken one by one and only to be handed out. So what
//! was sent ahead beside it comes back at most once for it, is set apart as well, and is never sent ahead
//! again: neighbours are not blamed.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bezoar_core::{ErrorKind, TransportError};
use lapin::{
    Channel,
    options::{BasicGetOptions, QueueDeclareOptions},
};
use tokio::time::{Instant, sleep};

use crate::{
    error::{error, from_lapin, is_not_found},
    lane::Lane,
    leases::Arrived,
    line::Line,
    publisher::{Publication, Published},
    topology::Topology,
    wire::{self, Raw},
};

/// The pause between two tries to set a message apart.
const PAUSE: Duration = Duration::from_millis(500);
/// How often to look for messages that other processes have set apart.
const LOOK: Duration = Duration::from_secs(1);

/// A message that may have taken a process along.
#[derive(Debug)]
pub(crate) struct Suspect {
    pub(crate) arrived: Arrived,
    /// Somebody had it, and its count does not say so.
    pub(crate) redelivered: bool,
}

#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) line: Line,
    queue: String,
    /// There is, or may be, something in the queue.
    some: AtomicBool,
    looked: Mutex<Option<Instant>>,
    /// Somebody is looking, and rings when done.
    busy: AtomicBool,
    /// Held while looking, so that no more than one waits to be handed out. Says whether there is an end of it.
    looking: Arc<tokio::sync::Mutex<bool>>,
}

impl Alone {
    pub(crate) fn new(queue: String) -> Self {
        Self {
            line: Line::default(),
            queue,
            some: AtomicBool::new(true),
            looked: Mutex::default(),
            busy: AtomicBool::new(false),
            looking: Arc::default(),
        }
    }

    /// Ends looking: from now on nothing comes any more.
    pub(crate) async fn end(&self) {
        *self.looking.lock().await = true;
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Instant {
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        match looked {
            _ if self.busy.load(Ordering::SeqCst) => Instant::now() + LOOK,
            Some(at) if !self.some.load(Ordering::SeqCst) => at + LOOK,
            _ => Instant::now(),
        }
    }

    fn look_begins(&self) {
        self.busy.store(true, Ordering::SeqCst);
        self.some.store(false, Ordering::SeqCst);
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn note_some(&self) {
        self.some.store(true, Ordering::SeqCst);
    }
}

impl Lane {
    /// Takes a message to be run alone, if it is time to look and there is one. It then waits to be handed out.
    ///
    /// In the background, so that it holds nobody up, and to its end: a message that comes for nobody would be
    /// lost sight of.
    pub(crate) fn look_alone(self: &Arc<Self>) {
        if self.alone.next_look() > Instant::now() {
            return;
        }
        let Ok(ended) = self.alone.looking.clone().try_lock_owned() else { return };
        if *ended {
            return;
        }
        self.alone.look_begins();
        let lane = self.clone();
        tokio::spawn(async move {
            let fetched = lane.fetch_alone().await;
            if fetched.is_err() {
                lane.alone.some.store(false, Ordering::SeqCst); // not again at once
            }
            lane.alone.busy.store(false, Ordering::SeqCst);
            drop(ended);
            match fetched {
                Ok(()) => lane.arrived.notify_waiters(),
                Err(failed) if failed.is_transient() => (), // whoever receives finds the same
                Err(failed) => lane.set_fault(failed),
            }
        });
    }

    async fn fetch_alone(&self) -> Result<(), TransportError> {
        while self.alone.line.leases(|leases| leases.waiting()) == 0 {
            let channel = self.alone_channel().await?;
            let epoch = self.alone.line.epoch();
            let got =
                channel.basic_get(self.alone.queue.as_str().into(), BasicGetOptions::default());
            let asked = self.alone.line.asking(&channel);
            let got = self.inner.consuming.answered(got, "receive").await?;
            asked.answered();
            let delivery = match got {
                Ok(Some(got)) => got.delivery,
                Ok(None) => break,
                Err(source) if is_not_found(&source) => {
                    self.make_alone_queue().await?;
                    break;
                }
                Err(source) => return Err(from_lapin(&source, "receive")),
            };
            self.alone.note_some(); // there may be more
            self.arrive_alone(epoch, delivery).await;
        }
        Ok(())
    }

    /// One that somebody had is counted first, and comes again.
    async fn arrive_alone(&self, epoch: i64, delivery: lapin::message::Delivery) {
        let (tag, redelivered) = (delivery.delivery_tag, delivery.redelivered);
        let raw = Box::new(Raw::from(delivery));
        let message = wire::read(&raw, self.inner.options.clock.now());
        let arrived = Arrived { tag, raw, message };
        if !redelivered {
            self.alone.line.leases_of(epoch, |leases| leases.arrive(arrived));
            return;
        }
        self.alone.line.leases_of(epoch, |leases| leases.note(tag));
        self.set_apart(&self.alone.line, epoch, vec![Suspect { arrived, redelivered }]).await;
    }

    /// Moves messages of `line` to the queue of those that are run alone, each with its count.
    pub(crate) async fn set_apart(&self, line: &Line, epoch: i64, suspects: Vec<Suspect>) {
        let copies = suspects.into_iter().map(|it| (it.arrived.tag, self.apart(it)));
        let (mut tags, mut copies): (Vec<_>, Vec<_>) = copies.unzip();
        while line.epoch() == epoch && !copies.is_empty() {
            let outcomes = self.inner.publisher.publish(copies.clone(), "receive").await;
            let (mut stored, mut left, mut failed) = (Vec::new(), Vec::new(), None);
            for ((tag, copy), outcome) in tags.into_iter().zip(copies).zip(outcomes) {
                match outcome {
                    Ok(Published::Stored) => stored.push(tag),
                    Ok(Published::NotRouted) => left.push((tag, copy)),
                    Err(error) => {
                        left.push((tag, copy));
                        failed = Some(error);
                    }
                }
            }
            // If the channel was lost meanwhile, these return as well: at least once, and flagged.
            let _ = line.ack(epoch, stored).await;
            self.alone.note_some();
            self.arrived.notify_waiters();
            if !left.is_empty() {
                self.before_next_try(failed).await;
            }
            (tags, copies) = left.into_iter().unzip();
        }
    }

    fn apart(&self, Suspect { arrived, redelivered }: Suspect) -> Publication {
        let Arrived { raw, mut message, .. } = arrived;
        if redelivered {
            message.ledger.acquire();
        }
        let properties = wire::returned(&raw, &message);
        Publication { key: self.alone.queue.as_str().into(), ..self.to_queue(&raw, properties) }
    }

    async fn before_next_try(&self, failed: Option<TransportError>) {
        let failed = match failed {
            Some(failed) => Err(failed),
            None => self.make_alone_queue().await,
        };
        if let Err(failed) = failed {
            tracing::warn!(queue = %self.queue, error = %failed, "cannot set a message apart");
            sleep(PAUSE).await;
        }
    }

    /// The queue is made by `provision`; one that was provisioned by others may lack it.
    async fn make_alone_queue(&self) -> Result<(), TransportError> {
        let wanted = Topology::of_queue(&self.queue, self.inner.options.queue_type)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), "receive"))?;
        let Some(wanted) = wanted.queues.into_iter().find(|it| it.name == self.alone.queue) else {
            return Ok(());
        };
        let channel = self.inner.consuming.channel("receive").await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declare = channel.queue_declare(wanted.name.as_str().into(), durable, wanted.arguments);
        let declared = self.inner.consuming.answered(declare, "receive").await?;
        declared.map(|_| ()).map_err(|source| from_lapin(&source, "receive"))
    }

    async fn alone_channel(&self) -> Result<Channel, TransportError> {
        if let Some(channel) = self.alone.line.live_channel() {
            return Ok(channel);
        }
        self.alone.line.lose();
        let channel = self.inner.consuming.channel("receive").await?;
        self.alone.line.begin(channel.clone());
        Ok(channel)
    }
}
