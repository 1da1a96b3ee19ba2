//! Sending, and opening queues.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Capabilities, Counting, DeadLetterId, Destination, ErrorKind, Leases, Outgoing, QueueName,
    SettlementDurability, SubscribeOptions, Subscription, Transport, TransportError,
};
use jiff::Timestamp;
use lapin::{options::QueueDeclareOptions, types::FieldTable};
use tokio::time::Instant;

use crate::{
    DeadLettering, Options, delay,
    error::{PROVISION, TRANSPORT, error, is_not_found, no_queue, of_queue},
    lane::Lane,
    link::Link,
    management::Management,
    provision::bind,
    publisher::{Outcome, Publication, Published, Publisher},
    subscription::RabbitSubscription,
    topology, wire,
};

/// For how long a queue's ways back from the ladder of delays are taken for granted.
const BOUND_FOR: Duration = Duration::from_secs(10);

/// Queues on a RabbitMQ broker. Cheap to clone: all clones share their connections, at most
/// four.
#[derive(Debug, Clone)]
pub struct RabbitTransport {
    pub(crate) inner: Arc<Inner>,
}

/// All but the options is shared with the other ways of using the same connections.
#[derive(Debug, Clone)]
pub(crate) struct Inner {
    pub(crate) options: Arc<Options>,
    /// Never publishes, so that an alarm does not block it.
    pub(crate) consuming: Arc<Link>,
    pub(crate) publisher: Arc<Publisher>,
    /// For questions and declarations, whose refusal ends a channel; holds nothing.
    pub(crate) asking: Arc<Link>,
    /// For dead letters: one that cannot be read ends its connection, and must not end that of work queues.
    pub(crate) dead: Arc<Link>,
    pub(crate) management: Option<Arc<Management>>,
    /// Who we are to the broker.
    pub(crate) user: String,
    pub(crate) ids: Arc<DeadLetterIds>,
    /// One look at a dead-letter queue at a time: what one holds another would miss.
    pub(crate) dead_turn: Arc<tokio::sync::Mutex<()>>,
    bound: Arc<Mutex<HashMap<QueueName, Instant>>>,
    lanes: Arc<Mutex<Vec<Weak<Lane>>>>,
}

impl RabbitTransport {
    /// Checks the options. The broker is first spoken to when it is needed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for options that cannot be used.
    pub fn open(options: Options) -> Result<Self, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "open");
        options.check().map_err(invalid)?;
        let management = Management::new(&options).map_err(invalid)?;
        let user = options.uri().map_err(invalid)?.authority.userinfo.username;
        let options = Arc::new(options);
        Ok(Self {
            inner: Arc::new(Inner {
                consuming: Arc::new(Link::new(options.clone(), "consuming")),
                publisher: Arc::new(Publisher::new(options.clone())),
                asking: Arc::new(Link::new(options.clone(), "asking")),
                dead: Arc::new(Link::new(options.clone(), "dead letters")),
                management: management.map(Arc::new),
                user,
                ids: Arc::default(),
                dead_turn: Arc::default(),
                bound: Arc::default(),
                lanes: Arc::default(),
                options,
            }),
        })
    }

    /// The same connections, with another way of setting aside.
    pub fn dead_lettering(&self, dead_lettering: DeadLettering) -> Self {
        let options = Options { dead_lettering, ..(*self.inner.options).clone() };
        Self { inner: Arc::new(Inner { options: Arc::new(options), ..(*self.inner).clone() }) }
    }

    /// Ends all connections; what is held returns to its queues. The next use connects again.
    pub async fn close(&self) {
        self.inner.consuming.close().await;
        self.inner.publisher.close().await;
        self.inner.asking.close().await;
        self.inner.dead.close().await;
    }

    fn publication(
        &self,
        to: &Destination,
        outgoing: &Outgoing,
    ) -> Result<Publication, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "send");
        let (actual_bytes, limit_bytes) =
            (outgoing.message.body.len(), self.inner.options.max_message_bytes);
        if actual_bytes > limit_bytes {
            let id = outgoing.message.id.clone();
            return Err(error(ErrorKind::TooLarge { id, actual_bytes, limit_bytes }, "send"));
        }
        outgoing.check().map_err(invalid)?;
        if outgoing.delay > delay::MAX {
            return Err(error(ErrorKind::Unsupported("delays of more than 75 days"), "send"));
        }
        let properties = wire::write(&outgoing.message).map_err(invalid)?;
        let body = outgoing.message.body.reveal().clone();
        match to {
            Destination::Queue(queue) => {
                let (exchange, key) = ("".into(), queue.as_str().into());
                let direct = Publication { exchange, key, properties, body };
                Ok(self.inner.delayed(direct, queue, outgoing.delay))
            }
            Destination::Topic { .. } if !outgoing.delay.is_zero() => {
                Err(error(ErrorKind::Unsupported("delays on the way to a topic"), "send"))
            }
            Destination::Topic { name, key } => {
                let key = lapin::types::ShortString::try_new(key.as_str()).map_err(|_| {
                    invalid(bezoar_core::Invalid::new("key", "is longer than 255 bytes"))
                })?;
                Ok(Publication { exchange: name.as_str().into(), key, properties, body })
            }
            _ => Err(error(ErrorKind::Unsupported("destinations of this kind"), "send")),
        }
    }
}

impl Inner {
    /// The same publication, by way of the ladder if there is a delay.
    pub(crate) fn delayed(
        &self,
        direct: Publication,
        queue: &QueueName,
        after: Duration,
    ) -> Publication {
        match delay::way(after, queue.as_str()) {
            Some(way) => Publication {
                exchange: "".into(),
                key: topology::delay_queue(way.first).into(),
                properties: wire::with_turns(direct.properties, &way.turns),
                body: direct.body,
            },
            None => direct,
        }
    }

    /// Publishes what belongs to `queue`, after making sure that what is delayed will find it.
    pub(crate) async fn publish_to(
        &self,
        queue: &QueueName,
        batch: Vec<Publication>,
        operation: &'static str,
    ) -> Vec<Outcome> {
        let is_delayed = |it: &Publication| topology::is_delay_queue(it.key.as_str());
        if batch.iter().any(is_delayed)
            && let Err(failed) = self.bind_delays(queue, operation).await
        {
            return batch.iter().map(|_| Err(failed.again())).collect();
        }
        let outcomes = self.publisher.publish(batch, operation).await;
        if outcomes.iter().any(|it| matches!(it, Ok(Published::NotRouted))) {
            // Somebody has removed queues: the ways back may be gone with them.
            self.bound.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
        }
        outcomes
    }

    /// The broker confirms what enters the ladder; that there is a way out is ours to know.
    async fn bind_delays(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied();
        if bound.is_some_and(|at| at.elapsed() < BOUND_FOR) {
            return Ok(());
        }
        let channel = self.asking.question(operation).await?;
        for way in topology::ways_back(queue.as_str()) {
            match self.asking.answered(bind(&channel, &way), operation).await? {
                Ok(()) => (),
                Err(source) if is_not_found(&source) => {
                    self.look(queue, queue.as_str(), operation).await?;
                    let missing = format!("exchange {:?} is missing; {PROVISION}", way.from);
                    return Err(error(ErrorKind::Unusable, operation).with_source(missing));
                }
                Err(source) => return Err(of_queue(&source, queue, operation)),
            }
        }
        self.asking.keep(channel);
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.retain(|_, at| at.elapsed() < BOUND_FOR);
        bound.insert(queue.clone(), Instant::now());
        Ok(())
    }

    /// How many messages the queue `name` has ready; `queue` is what is not found if it is missing.
    pub(crate) async fn look(
        &self,
        queue: &QueueName,
        name: &str,
        operation: &'static str,
    ) -> Result<u64, TransportError> {
        let channel = self.asking.question(operation).await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let look = channel.queue_declare(name.into(), passive, FieldTable::default());
        let found = self.asking.answered(look, operation).await?;
        self.asking.keep(channel);
        let found = found.map_err(|source| of_queue(&source, queue, operation))?;
        Ok(found.message_count().into())
    }

    pub(crate) fn register(&self, lane: &Arc<Lane>) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Arc::downgrade(lane));
    }

    /// How many messages of a queue were sent ahead to us and given to nobody.
    pub(crate) fn waiting_here(&self, queue: &QueueName) -> u64 {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes: Vec<_> = lanes.iter().filter_map(Weak::upgrade).collect();
        let of_queue = lanes.iter().filter(|lane| lane.queue == *queue);
        of_queue.map(|lane| lane.waiting() as u64).sum()
    }
}

/// Gives each dead letter an id that sorts by time.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterIds(AtomicI64);

impl DeadLetterIds {
    /// Milliseconds, and a random part for what other processes set aside in the same one.
    pub(crate) fn next(&self, now: Timestamp) -> DeadLetterId {
        const RANDOM_BITS: u32 = 21;
        let random = i64::from(rand::random::<u32>() >> (u32::BITS - RANDOM_BITS));
        let least = (now.as_millisecond().max(0) << RANDOM_BITS) | random;
        let raise = |last: i64| Some(least.max(last + 1));
        let last = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, raise);
        DeadLetterId(least.max(last.unwrap_or(0) + 1))
    }
}

#[async_trait]
impl Transport for RabbitTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            transport: TRANSPORT,
            topics: true,
            subscriptions: true,
            sessions: false,
            ordering: true,
            scheduled: Some(delay::MAX),
            batching: true,
            transactions: false,
            native_dead_letters: true,
            priority: false,
            max_message_bytes: self.inner.options.max_message_bytes,
            durable: true,
            leases: Leases::HeldByConnection,
            fencing: true,
            settlement: SettlementDurability::Submitted,
            acquired: Counting::AtLeast,
            single_copy: false,
            deduplication: false,
            wakes: true,
        }
    }

    async fn send(&self, to: &Destination, batch: &[Outgoing]) -> Vec<Result<(), TransportError>> {
        let mut accepted = Vec::with_capacity(batch.len());
        let mut prepare = |outgoing| self.publication(to, outgoing).map(|it| accepted.push(it));
        let prepared: Vec<Result<(), TransportError>> = batch.iter().map(&mut prepare).collect();
        let outcomes = match to {
            Destination::Queue(queue) => self.inner.publish_to(queue, accepted, "send").await,
            _ => self.inner.publisher.publish(accepted, "send").await,
        };
        let mut outcomes = outcomes.into_iter();
        let sent = |it: Result<(), TransportError>| match it
            .and_then(|()| outcomes.next().expect("there is one for each accepted"))?
        {
            Published::Stored => Ok(()),
            Published::NotRouted => Err(not_routed(to)),
        };
        prepared.into_iter().map(sent).collect()
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        self.inner.look(queue, queue.as_str(), "subscribe").await?;
        self.inner.ensure_set_aside(queue, "subscribe").await?;
        let lane = Lane::new(self.inner.clone(), queue.clone(), options)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), "subscribe"))?;
        Ok(Box::new(RabbitSubscription::new(lane)))
    }
}

fn not_routed(to: &Destination) -> TransportError {
    match to {
        Destination::Queue(queue) => no_queue(queue, "send"),
        Destination::Topic { name, .. } => {
            no_queue(name, "send").with_source("no queue is bound to this exchange for this key")
        }
        _ => error(ErrorKind::Other, "send"),
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::millis;

    use super::*;

    #[test]
    fn ids_of_dead_letters_grow() {
        let ids = DeadLetterIds::default();
        let given: Vec<_> = [5, 5, 4, 6].map(|time| ids.next(millis(time))).to_vec();
        assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
        assert!(ids.next(millis(253_402_200_000_000)).0 > 0, "in the year 9999 as well");
    }
}
