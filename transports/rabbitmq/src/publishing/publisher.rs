//! Publishing with pipelined confirms.
//!
//! A batch has a channel to itself until all its confirms have arrived: a return then belongs to this batch (see
//! `returned_messages.rs`). Everything is published as `mandatory`, because the broker confirms unroutable messages too.

use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bezoar_core::{ByteLimit, ErrorKind, TransportError};
use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{MaybeDone, maybe_done},
};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::ShortString,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    Options,
    connection::broker_connection::BrokerConnection,
    error::{error, from_lapin, is_access_refused, is_not_found},
    publishing::returned_messages::{Confirmed, SentRecord, with_returns},
};

/// How many batches are published at once. Messages that are sent one by one need as many channels as there are
/// messages in flight: while the broker syncs one to disk, the next must not wait.
const CHANNELS: usize = 32;
/// How many publications are in flight on one channel, at most.
const WINDOW: usize = 1_000;
/// How many bytes of bodies are in flight on one channel, at most; one publication may be larger.
const WINDOW_BYTES: usize = 32 * 1024 * 1024;
/// How many bytes of bodies are in flight on all channels, at most: lapin holds a copy of each until it is written.
const IN_FLIGHT_BYTES: usize = 128 * 1024 * 1024;
/// Bytes are counted in units of this size, because a semaphore counts up to 2^32 at a time.
const UNIT_BYTES: usize = 1_024;
/// How often to check whether an alarm has ended.
const BLOCKED_PAUSE: Duration = Duration::from_millis(50);

/// After this long without an answer, an alarm is assumed.
const PROBED_WITHIN: Duration = Duration::from_secs(2);
/// A routing key that leads to no queue: no queue may have this prefix.
const NOWHERE: &str = "bezoar.delay.nowhere";

/// How long to wait for the confirms of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// [`Options::confirm_timeout`], whatever the reason.
    Limited,
    /// The same, but an alarm does not count. For copies of messages that the broker still has: what was written when the
    /// alarm began is stored when it ends, and sending it again would double it.
    ThroughAlarms,
}

/// Whether the broker accepts messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It does.
    Ready,
    /// An alarm blocks publishers: what is written now is stored when the alarm ends.
    Blocked,
    /// It is not known: the connection is lost, or the user may not publish.
    Unknown,
}

/// How long a batch waits for its confirms.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    deadline: Instant,
    patience: Patience,
    /// How long to wait after an alarm has ended.
    limit: Duration,
}

/// A message on its way to an exchange.
#[derive(Clone)]
pub(crate) struct Publication {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

/// What the broker did with a publication that it has confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// Stored, in at least one queue.
    Stored,
    /// No queue is bound for it.
    NotRouted,
}

pub(crate) type Outcome = Result<Published, TransportError>;

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) link: BrokerConnection,
    options: Arc<Options>,
    permits: Semaphore,
    /// Units of bytes that may be published.
    units: Semaphore,
    free: Mutex<Vec<ConfirmChannel>>,
}

/// A channel in confirm mode, and its connection.
#[derive(Debug)]
struct ConfirmChannel {
    connection: Arc<Connection>,
    channel: Channel,
    /// Whether something was published on this channel before.
    used: bool,
}

impl Publisher {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            link: BrokerConnection::new(options.clone(), "publishing"),
            options,
            permits: Semaphore::new(CHANNELS),
            units: Semaphore::new(IN_FLIGHT_BYTES / UNIT_BYTES),
            free: Mutex::default(),
        }
    }

    /// Publishes, and waits until the broker has stored each publication. One result per publication, in order.
    ///
    /// If the future is dropped, each publication has been sent completely or not at all.
    pub(crate) async fn publish(
        &self,
        batch: Vec<Publication>,
        patience: Patience,
        operation: &'static str,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut rest = batch.into_iter();
        while !rest.as_slice().is_empty() {
            let count = window_length(rest.as_slice().iter().map(|it| it.body.len()));
            let window = rest.by_ref().take(count).collect();
            match self.publish_window(window, patience, operation).await {
                Ok(done) => outcomes.extend(done),
                Err(failed) => outcomes.extend((0..count).map(|_| Err(failed.again()))),
            }
        }
        outcomes
    }

    async fn publish_window(
        &self,
        window: Vec<Publication>,
        patience: Patience,
        operation: &'static str,
    ) -> Result<Vec<Outcome>, TransportError> {
        let deadline = Instant::now() + self.options.confirm_timeout;
        let units = units(window.iter().map(|it| it.body.len()).sum());
        let permits =
            async { (self.permits.acquire().await, self.units.acquire_many(units).await) };
        let Ok((channel, units)) = timeout_at(deadline, permits).await else {
            return Err(error(ErrorKind::Throttled { retry_after: None }, operation)
                .with_source("too many messages are waiting to be published"));
        };
        let _channel = channel.expect("the semaphore is never closed");
        let _units = units.expect("the semaphore is never closed");
        let mut confirm_channel = self.confirm_channel(deadline, operation).await?;
        unblocked(&confirm_channel.connection, deadline, operation).await?;
        let (records, properties): (Vec<_>, Vec<_>) =
            window.into_iter().map(SentRecord::split).unzip();
        let waiting = Waiting { deadline, patience, limit: self.options.confirm_timeout };
        let confirmed = confirm_channel.store(&records, properties, waiting, operation).await;
        // Otherwise the channel is closed, or an old confirm may still arrive. Even one that only refused is not used
        // again: a channel that was opened while a quorum queue had no leader may refuse everything (seen on 3.10) until
        // the node of the former leader is back.
        if confirmed.iter().all(|it| it.result.is_ok()) {
            confirm_channel.used = true;
            self.lock_free().push(confirm_channel);
        }
        Ok(with_returns(&records, confirmed))
    }

    /// Whether the broker accepts messages now. It tells a connection of an alarm only when something is published on it.
    pub(crate) async fn readiness(&self, operation: &'static str) -> Readiness {
        let Ok(connection) = self.link.connection(operation).await else {
            return Readiness::Unknown;
        };
        if connection.status().blocked() {
            return Readiness::Blocked;
        }
        let (properties, body) = (BasicProperties::default(), Bytes::new());
        let probe = Publication { exchange: "".into(), key: NOWHERE.into(), properties, body };
        let publishing = self.publish(vec![probe], Patience::Limited, operation);
        let outcomes = timeout(PROBED_WITHIN, publishing).await;
        match outcomes.as_deref() {
            _ if connection.status().blocked() => Readiness::Blocked,
            Ok([Ok(Published::NotRouted)]) => Readiness::Ready,
            Ok(_) => Readiness::Unknown,
            Err(_) => Readiness::Blocked,
        }
    }

    async fn confirm_channel(
        &self,
        deadline: Instant,
        operation: &'static str,
    ) -> Result<ConfirmChannel, TransportError> {
        while let Some(confirm_channel) = self.lock_free().pop() {
            if confirm_channel.channel.status().connected() {
                return Ok(confirm_channel);
            }
        }
        let connection = self.link.connection(operation).await?;
        // A blocked connection does not answer any request, not even for a new channel.
        unblocked(&connection, deadline, operation).await?;
        let channel = self.link.channel(operation).await?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        let selected = self.link.with_timeout(select, operation).await?;
        selected.map_err(|source| from_lapin(&source, operation))?;
        Ok(ConfirmChannel { connection, channel, used: false })
    }

    fn lock_free(&self) -> std::sync::MutexGuard<'_, Vec<ConfirmChannel>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn close(&self) {
        self.lock_free().clear();
        self.link.close().await;
    }
}

/// How many publications with bodies of these sizes are published together; at least one.
fn window_length(sizes: impl Iterator<Item = usize>) -> usize {
    let mut limit = ByteLimit::new(WINDOW_BYTES);
    sizes.take(WINDOW).take_while(|bytes| limit.admits(*bytes)).count()
}

/// The units that a window takes; one that is larger than the limit takes all of them.
fn units(bytes: usize) -> u32 {
    let units = bytes.min(IN_FLIGHT_BYTES).div_ceil(UNIT_BYTES);
    u32::try_from(units).expect("the limit is below 2^32 units")
}

impl ConfirmChannel {
    /// Writes all publications in order, and waits for their confirms. Without a confirm the outcome is unknown.
    async fn store(
        &self,
        records: &[SentRecord],
        properties: Vec<BasicProperties>,
        limits: Waiting,
        operation: &'static str,
    ) -> Vec<Confirmed> {
        let store =
            |(it, properties)| Box::pin(maybe_done(self.store_one(it, properties, operation)));
        let mut storing: Vec<_> = records.iter().zip(properties).map(store).collect();
        // The first poll of each future writes its publication.
        poll_each(&mut storing);
        // Backwards: the last is usually confirmed last, so that this task wakes once and not for each confirm.
        let waiting = async {
            for it in storing.iter_mut().rev() {
                it.as_mut().await;
            }
        };
        if self.in_time(waiting, limits).await.is_none() {
            // A confirm that was not polled yet may carry the return of another publication.
            poll_each(&mut storing);
        }
        let unavailable = || {
            error(ErrorKind::OutcomeUnknown, operation)
                .with_source("the broker did not confirm in time")
        };
        let stored = storing.iter_mut().map(|it| it.as_mut().take_output());
        let stored = stored.map(|stored| stored.unwrap_or_else(|| unavailable().into()));
        match self.used && records.len() > 1 {
            true => stored.map(Confirmed::or_unknown).collect(),
            false => stored.collect(),
        }
    }

    /// The output, or `None` after the deadline.
    async fn in_time<T>(&self, future: impl Future<Output = T>, limits: Waiting) -> Option<T> {
        let Waiting { mut deadline, patience, limit } = limits;
        if patience == Patience::Limited {
            return timeout_at(deadline, future).await.ok();
        }
        let mut future = pin!(future);
        loop {
            let look = deadline.min(Instant::now() + BLOCKED_PAUSE);
            match timeout_at(look, &mut future).await {
                Ok(output) => return Some(output),
                Err(_) if self.is_blocked() => deadline = Instant::now() + limit,
                Err(_) if Instant::now() >= deadline => return None,
                Err(_) => (),
            }
        }
    }

    fn is_blocked(&self) -> bool {
        let status = self.connection.status();
        status.connected() && status.blocked()
    }

    async fn store_one(
        &self,
        it: &SentRecord,
        properties: BasicProperties,
        operation: &'static str,
    ) -> Confirmed {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (it.exchange.clone(), it.key.clone());
        let written =
            self.channel.basic_publish(exchange, key, options, &it.body, properties).await;
        match written {
            Ok(confirm) => confirmation(confirm.await, operation),
            Err(source) => from_lapin(&source, operation).into(),
        }
    }
}

/// Polls each future once.
fn poll_each<F: Future>(some: &mut [Pin<Box<MaybeDone<F>>>]) {
    for it in some {
        let _ = it.as_mut().now_or_never();
    }
}

/// Waits while the broker blocks publishers: an alarm is not a reason to reconnect.
async fn unblocked(
    connection: &Connection,
    deadline: Instant,
    operation: &'static str,
) -> Result<(), TransportError> {
    while connection.status().blocked() {
        if Instant::now() >= deadline {
            return Err(error(ErrorKind::Throttled { retry_after: None }, operation)
                .with_source("the broker blocks publishers: it is low on memory or disk space"));
        }
        sleep(BLOCKED_PAUSE).await;
    }
    Ok(())
}

fn confirmation(confirmed: lapin::Result<Confirmation>, operation: &'static str) -> Confirmed {
    match confirmed {
        Ok(Confirmation::Ack(returned)) => Confirmed { result: Ok(()), returned },
        Ok(Confirmation::Nack(returned)) => {
            let refused = error(ErrorKind::Full, operation).with_source(
                "the broker refused the message; the queue is full, or has lost its majority",
            );
            Confirmed { result: Err(refused), returned }
        }
        Ok(Confirmation::NotRequested) => error(ErrorKind::OutcomeUnknown, operation).into(),
        Err(source) if is_not_found(&source) => error(ErrorKind::Unusable, operation)
            .with_source(format!("exchange not found ({source})"))
            .into(),
        Err(source) if is_access_refused(&source) => from_lapin(&source, operation).into(),
        Err(source) => {
            error(ErrorKind::OutcomeUnknown, operation).with_source(source.to_string()).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_limited_by_number_and_by_bytes() {
        const MIB: usize = 1024 * 1024;
        assert_eq!(window_length([1; 5].into_iter()), 5);
        assert_eq!(window_length([1; 1_500].into_iter()), WINDOW);
        assert_eq!(window_length([16 * MIB; 256].into_iter()), 2);
        assert_eq!(window_length([200 * MIB, 1].into_iter()), 1, "one of any size");
        assert_eq!(units(16 * MIB), 16 * 1_024);
        assert_eq!(units(1), 1);
        assert_eq!(units(500 * MIB), units(IN_FLIGHT_BYTES), "it waits until all others are done");
    }
}
