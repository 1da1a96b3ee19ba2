//! Sending and receiving.

use std::{num::NonZeroU32, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, ByteLimit, Capabilities, Counting, Delivery, Destination, ErrorKind, MAX_DELAY,
    MessageId, Outgoing, QueueName, Settlement, SettlementDurability, SubscribeOptions,
    Subscription, Transport, TransportError,
};
use jiff::Timestamp;
use rand::RngExt;
use rusqlite::Connection;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    Options, database,
    database_files::{BLOCKED_LOG, DatabaseFiles},
    error::{TRANSPORT, error, may_be_caused_by_one_job, no_queue},
    job::Reply,
    lease::{self, Lease},
    monotonic_clock::MonotonicClock,
    queue_signals::QueueSignals,
    readers::Readers,
    session::{Claimed, KnownId, KnownIds, Session},
    writer::Writer,
};

/// The maximum number of messages of a batch that are stored in one transaction.
const PART_LIMIT: usize = 10_000;
/// The maximum bytes of bodies of a batch that are stored in one transaction; the first message may be of any
/// size.
const PART_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// Queues in a SQLite database. Cheap to clone: all clones share one writer.
#[derive(Debug, Clone)]
pub struct SqliteTransport {
    /// Declared before the writer, so that they are closed first. If two connections close at the same time,
    /// each takes the other for open, and neither copies the log into the database.
    pub(crate) readers: Arc<Readers>,
    pub(crate) writer: Writer,
    pub(crate) options: Arc<Options>,
    pub(crate) files: Arc<DatabaseFiles>,
    signals: QueueSignals,
}

impl SqliteTransport {
    /// Opens the database, creating and migrating it as needed. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unusable`] or [`ErrorKind::Unavailable`] for a file that is damaged, read-only,
    /// locked or of a newer version. The error says what to do. The file is not changed in these
    /// cases.
    pub fn open(mut options: Options) -> Result<Self, TransportError> {
        let connection = database::open(&options)?;
        options.clock = Arc::new(monotonic_clock(&options, &connection)?);
        let files = DatabaseFiles::of(&options.path)
            .map_err(|source| database::cannot_open(&options.path, &source))?;
        let files = Arc::new(files);
        let readers = Arc::new(Readers::open(&options)?);
        let (options, signals) = (Arc::new(options), QueueSignals::default());
        let writer = Writer::start(connection, files.clone(), options.clone(), signals.clone())
            .map_err(|source| error(ErrorKind::Unavailable, "open").with_source(source))?;
        Ok(Self { readers, writer, options, files, signals })
    }

    /// The files of the database. Reading their sizes does not keep them open.
    pub fn files(&self) -> Arc<DatabaseFiles> {
        self.files.clone()
    }

    /// Stores checked messages in one transaction, except those whose id another message has.
    async fn store(
        &self,
        queue: &QueueName,
        accepted: Vec<Outgoing>,
    ) -> Result<KnownIds, TransportError> {
        let (name, options) = (queue.clone(), self.options.clone());
        let bytes = accepted.iter().map(bytes).sum();
        let work = move |session: &mut Session, connection: &Connection| {
            let Some(queue) = session.queue(connection, &name)? else { return Ok(Stored::NoQueue) };
            if let Some(why) = no_room(session, connection, &options, bytes as u64)? {
                return Ok(Stored::Full(why));
            }
            Ok(Stored::Yes(session.send(connection, (&name, queue), &accepted)?))
        };
        let stored = self.writer.queue("send", bytes, work, |stored| stored).await?;
        match stored.wait().await? {
            Stored::Yes(conflicts) => Ok(conflicts),
            Stored::NoQueue => Err(no_queue(queue, "send")),
            Stored::Full(why) => Err(error(ErrorKind::Full, "send").with_source(why)),
        }
    }
}

/// The result of storing messages.
#[derive(Debug, Clone)]
enum Stored {
    /// Stored, except these.
    Yes(KnownIds),
    NoQueue,
    /// Not stored, and why.
    Full(&'static str),
}

/// Why the limits leave no room for so many more bytes, if they do not. The log is at its limit if a reader keeps it
/// from being reused.
pub(crate) fn no_room(
    session: &Session,
    connection: &Connection,
    options: &Options,
    bytes: u64,
) -> rusqlite::Result<Option<&'static str>> {
    if session.blocked_log_bytes > options.max_log_bytes {
        return Ok(Some(BLOCKED_LOG));
    }
    let Some(most) = options.max_bytes else { return Ok(None) };
    let used = database::used_bytes(connection)? + session.blocked_log_bytes;
    Ok((used + bytes > most).then_some(
        "the store has reached its configured size; let messages be done, or raise the limit",
    ))
}

/// A clock that is not behind the latest time in the database.
fn monotonic_clock(
    options: &Options,
    connection: &Connection,
) -> Result<MonotonicClock, TransportError> {
    let clock = MonotonicClock::new(options.clock.clone(), database::latest_time(connection)?);
    if clock.ahead() > 0 {
        let (path, ahead_ms) = (options.path.display(), clock.ahead());
        tracing::warn!(%path, ahead_ms, "the clock was set back; the database goes on from where it was");
    }
    Ok(clock)
}

fn bytes(outgoing: &Outgoing) -> usize {
    outgoing.message.body.len()
}

/// The end of the first part of a batch that is stored in one transaction.
fn part_end(batch: &[Outgoing]) -> usize {
    let mut limit = ByteLimit::new(PART_LIMIT_BYTES);
    batch.iter().take(PART_LIMIT).take_while(|it| limit.admits(bytes(it))).count()
}

fn acceptance(id: MessageId, known: Option<&KnownId>) -> Result<Acceptance, TransportError> {
    match known {
        None => Ok(Acceptance::New),
        Some(KnownId::Same) => Ok(Acceptance::Repeated),
        Some(KnownId::Other) => Err(error(ErrorKind::Conflict(id), "send")),
    }
}

#[async_trait]
impl Transport for SqliteTransport {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::new(TRANSPORT, self.options.max_message_bytes);
        can.ordering = true;
        can.ordering_keys = true;
        can.scheduled = Some(MAX_DELAY);
        can.time_to_live = true;
        can.batching = true;
        can.durable = true;
        can.fencing = true;
        can.settlement = SettlementDurability::Durable;
        can.acquired = Counting::Exact;
        can.single_copy = true;
        can.deduplication = true;
        can.wakes = true;
        can.knows_depth = true;
        can.knows_ages = true;
        can.dead_letter_access = true;
        can.message_access = true;
        can
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let (queue, mut results) = match self.capabilities().check_batch(to, batch) {
            Ok(checked) => checked,
            Err(refused) => return refused,
        };
        let accepted = batch.iter().zip(&results).filter(|(_, checked)| checked.is_ok());
        let mut accepted: Vec<_> = accepted.map(|(outgoing, _)| outgoing.clone()).collect();
        let mut open = results.iter_mut().filter(|checked| checked.is_ok());
        while !accepted.is_empty() {
            let later = accepted.split_off(part_end(&accepted));
            let part = std::mem::replace(&mut accepted, later);
            let ids: Vec<_> = part.iter().map(|outgoing| outgoing.message.id.clone()).collect();
            let stored = self.store(queue, part).await;
            for ((place, id), result) in ids.into_iter().enumerate().zip(open.by_ref()) {
                *result = match &stored {
                    Ok(known) => acceptance(id, known.get(&place)),
                    Err(failed) => Err(failed.again()),
                };
            }
        }
        results
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        let name = queue.clone();
        let id = self
            .writer
            .run("subscribe", move |session, connection| session.queue(connection, &name));
        let id = id.await?.ok_or_else(|| no_queue(queue, "subscribe"))?;
        Ok(Box::new(SqliteSubscription {
            writer: self.writer.clone(),
            signals: self.signals.clone(),
            poll: self.options.poll,
            name: queue.clone(),
            queue: id,
            options,
        }))
    }
}

#[derive(Debug)]
struct SqliteSubscription {
    writer: Writer,
    signals: QueueSignals,
    poll: Duration,
    name: QueueName,
    queue: i64,
    options: SubscribeOptions,
}

/// The result of a claim that took effect. If it is dropped with deliveries in it, their claim is undone.
struct Found {
    claimed: Vec<Claimed>,
    /// How many rows were damaged and set aside; there may be messages behind them.
    set_aside: usize,
    pause: Duration,
    undo: (Writer, QueueName, i64),
}

impl Drop for Found {
    fn drop(&mut self) {
        if self.claimed.is_empty() {
            return;
        }
        let claimed = std::mem::take(&mut self.claimed);
        let (writer, name, queue) = &self.undo;
        let (name, queue) = (name.clone(), *queue);
        // If the inbox is full, the leases expire by themselves.
        writer.submit("receive", move |session, connection| {
            session.unclaim(connection, (&name, queue), &claimed)
        });
    }
}

impl SqliteSubscription {
    async fn claim(&self, max: u32) -> Result<Found, TransportError> {
        let SubscribeOptions { lease, max_bytes, .. } = self.options;
        let queue = self.queue;
        let undo = (self.writer.clone(), self.name.clone(), queue);
        let name = self.name.clone();
        let work = move |session: &mut Session, connection: &Connection| {
            let token: i64 = rand::rng().random(); // a new token for each run, because an undone run must not match the next
            let (claimed, set_aside) =
                session.claim(connection, (&name, queue), (max, max_bytes), lease, token)?;
            let next = if claimed.is_empty() { session.next(connection, queue)? } else { None };
            let now = session.now();
            let pause = next.map_or(Duration::MAX, |next| now.duration_until(next).unsigned_abs());
            Ok((claimed, set_aside, pause))
        };
        let hand_over = |(claimed, set_aside, pause)| Found { claimed, set_aside, pause, undo };
        self.writer.queue("receive", 0, work, hand_over).await?.wait().await
    }

    /// Queues the settlements of a part of the batch. The result is `false` for a stale receipt.
    async fn queue_settlements(
        &self,
        batch: &Arc<Vec<(Delivery, Settlement)>>,
        part: Range<usize>,
    ) -> Result<Reply<Vec<bool>>, TransportError> {
        let (name, queue, batch) = (self.name.clone(), self.queue, batch.clone());
        let work = move |session: &mut Session, connection: &Connection| {
            let settle = |(delivery, settlement): &(Delivery, Settlement)| {
                session.settle(connection, (&name, queue), delivery, settlement)
            };
            batch[part.clone()].iter().map(settle).collect::<rusqlite::Result<Vec<bool>>>()
        };
        self.writer.queue("settle", 0, work, |done| done).await
    }

    /// Settles all in one transaction.
    async fn settle_together(
        &self,
        batch: &Arc<Vec<(Delivery, Settlement)>>,
    ) -> Result<Vec<bool>, TransportError> {
        self.queue_settlements(batch, 0..batch.len()).await?.wait().await
    }

    /// Settles each in its own transaction, so that one that fails does not fail the others.
    async fn settle_apart(
        &self,
        batch: &Arc<Vec<(Delivery, Settlement)>>,
    ) -> Vec<Result<(), TransportError>> {
        let mut replies = Vec::with_capacity(batch.len());
        for at in 0..batch.len() {
            replies.push(self.queue_settlements(batch, at..at + 1).await);
        }
        let mut results = Vec::with_capacity(batch.len());
        for reply in replies {
            results.push(match reply {
                Ok(reply) => reply.wait().await.and_then(|done| settled(done == [true])),
                Err(failed) => Err(failed),
            });
        }
        results
    }
}

fn settled(done: bool) -> Result<(), TransportError> {
    if done { Ok(()) } else { Err(error(ErrorKind::LeaseLost, "settle")) }
}

#[async_trait]
impl Subscription for SqliteSubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        let signal = self.signals.of(&self.name);
        loop {
            // Subscribes to the signal before the query, so that no message sent in between is
            // missed.
            let mut woken = std::pin::pin!(signal.notified());
            woken.as_mut().enable();
            let mut found = self.claim(max.get()).await?;
            if !found.claimed.is_empty() {
                let claimed = std::mem::take(&mut found.claimed);
                return Ok(claimed.into_iter().map(|claimed| claimed.delivery).collect());
            }
            if found.set_aside > 0 {
                continue;
            }
            let pause = found.pause.min(self.poll);
            let waiting = async {
                tokio::select! { biased; () = woken => (), () = sleep(pause) => () }
            };
            if timeout_at(deadline, waiting).await.is_err() {
                return Ok(Vec::new());
            }
        }
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        let batch = Arc::new(batch);
        match self.settle_together(&batch).await {
            Ok(done) => done.into_iter().map(settled).collect(),
            Err(failed) if batch.len() > 1 && may_be_caused_by_one_job(&failed) => {
                self.settle_apart(&batch).await
            }
            Err(failed) => batch.iter().map(|_| Err(failed.again())).collect(),
        }
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        let held: Vec<_> = deliveries.iter().map(|it| Lease::of(self.queue, it)).collect();
        let extended = self.writer.run("extend", move |session, connection| {
            let extend = |held: &Option<Lease>| match held {
                Some(held) => session.extend(connection, held, lease),
                None => Ok(None),
            };
            held.iter().map(extend).collect::<rusqlite::Result<Vec<_>>>()
        });
        let untils = match extended.await {
            Ok(untils) => untils,
            Err(failed) => return deliveries.iter().map(|_| Err(failed.again())).collect(),
        };
        let renew = |(delivery, until): (&mut Delivery, Option<Timestamp>)| {
            let until = until.ok_or_else(|| error(ErrorKind::LeaseLost, "extend"))?;
            if let Some([seq, token, _]) = delivery.receipt.numbers() {
                delivery.receipt = lease::receipt(seq, token, until.as_millisecond());
            }
            delivery.lease_until = Some(until);
            Ok(())
        };
        deliveries.iter_mut().zip(untils).map(renew).collect()
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        Ok(())
    }
}
