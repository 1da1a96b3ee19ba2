//! The transport: sending, subscribing, and the state that all clones share.

use std::{
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Counting, DeadLetterId, Destination, ErrorKind, Leases, Outgoing,
    QueueName, SettlementDurability, SubscribeOptions, Subscription, Transport, TransportError,
};
use jiff::Timestamp;
use lapin::{options::QueueDeclareOptions, types::FieldTable};

use crate::{
    DeadLettering, Options,
    check::findings::{DescribedQueue, QueueRole},
    connection::broker_connection::BrokerConnection,
    consuming::consumer_pair::ConsumerPair,
    consuming::subscription::RabbitSubscription,
    dead_letters::unroutable,
    error::{TRANSPORT, error, for_queue, queue_not_found},
    management::Management,
    publishing::publisher::{Outcome, Patience, Publication, Published, Publisher},
    topology,
    topology::delay_topology,
    topology::known_routes::KnownRoutes,
    wire,
};

/// How long the broker may take to show what it has confirmed.
const LAG: Duration = Duration::from_millis(200);

/// Queues on a RabbitMQ broker. Cheap to clone: all clones share at most four connections.
#[derive(Debug, Clone)]
pub struct RabbitTransport {
    pub(crate) inner: Arc<TransportState>,
}

/// What clones share; those of `dead_lettering` differ only in their options.
#[derive(Debug, Clone)]
pub(crate) struct TransportState {
    pub(crate) options: Arc<Options>,
    /// Never publishes: an alarm does not block it.
    pub(crate) consuming: Arc<BrokerConnection>,
    pub(crate) publisher: Arc<Publisher>,
    /// For requests whose refusal closes a channel; holds no leases.
    pub(crate) requests: Arc<BrokerConnection>,
    /// For dead letters: one that cannot be parsed closes its connection, which must not be that of work queues.
    pub(crate) dead: Arc<BrokerConnection>,
    pub(crate) management: Option<Arc<Management>>,
    /// The user that we are logged in as.
    pub(crate) user: String,
    pub(crate) vhost: String,
    pub(crate) ids: Arc<DeadLetterIdGenerator>,
    /// How delayed messages come back.
    pub(crate) routes: Arc<KnownRoutes>,
    pub(crate) pairs: Arc<unroutable::Pairs>,
    /// Whether a task returns messages from `bezoar.unroutable`.
    pub(crate) watches_unroutable: Arc<AtomicBool>,
}

impl RabbitTransport {
    /// Checks the options. Connections are opened when they are first needed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for unusable options.
    pub fn open(options: Options) -> Result<Self, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "open");
        options.check().map_err(invalid)?;
        let management = Management::new(&options).map_err(invalid)?;
        let uri = options.uri().map_err(invalid)?;
        let (user, vhost) = (uri.authority.userinfo.username, uri.vhost);
        let options = Arc::new(options);
        Ok(Self {
            inner: Arc::new(TransportState {
                consuming: Arc::new(BrokerConnection::new(options.clone(), "consuming")),
                publisher: Arc::new(Publisher::new(options.clone())),
                requests: Arc::new(BrokerConnection::new(options.clone(), "asking")),
                dead: Arc::new(BrokerConnection::new(options.clone(), "dead letters")),
                management: management.map(Arc::new),
                user,
                vhost,
                ids: Arc::default(),
                routes: Arc::default(),
                pairs: Arc::default(),
                watches_unroutable: Arc::default(),
                options,
            }),
        })
    }

    /// The same connections, with another mode of dead-lettering.
    pub fn dead_lettering(&self, dead_lettering: DeadLettering) -> Self {
        let options = Options { dead_lettering, ..(*self.inner.options).clone() };
        Self {
            inner: Arc::new(TransportState { options: Arc::new(options), ..(*self.inner).clone() }),
        }
    }

    /// Closes all connections; leased messages return to their queues. The next use connects again.
    pub async fn close(&self) {
        self.inner.consuming.close().await;
        self.inner.publisher.close().await;
        self.inner.requests.close().await;
        self.inner.dead.close().await;
    }

    fn publication(
        &self,
        to: &Destination,
        outgoing: &Outgoing,
    ) -> Result<Publication, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "send");
        self.capabilities().check(outgoing).map_err(naming_max_delay)?;
        let queue = match to {
            Destination::Queue(queue) => Some(queue),
            _ => None,
        };
        let properties = wire::write(&outgoing.message, queue).map_err(invalid)?;
        let body = outgoing.message.body.reveal().clone();
        match to {
            Destination::Queue(queue) => {
                let (exchange, key) = ("".into(), queue.as_str().into());
                let direct = Publication { exchange, key, properties, body };
                Ok(self.inner.delayed(direct, queue, outgoing.delay))
            }
            Destination::Topic { .. } if !outgoing.delay.is_zero() => {
                Err(error(ErrorKind::Unsupported("delays on the route to a topic"), "send"))
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

impl TransportState {
    /// The same publication, routed through the delay queues if there is a delay. The route back must have been looked up.
    pub(crate) fn delayed(
        &self,
        direct: Publication,
        queue: &QueueName,
        after: Duration,
    ) -> Publication {
        let (levels, back) = (self.options.delay_levels(), self.routes.route(queue));
        let Some(route) = delay_topology::route(after, (queue.as_str(), back), levels) else {
            return direct;
        };
        let due = self.options.clock.now().checked_add(after).unwrap_or(Timestamp::MAX);
        let Publication { properties, body, .. } = direct;
        Publication {
            exchange: "".into(),
            key: topology::delay_queue_name(route.first).into(),
            properties: wire::delayed(properties, &route.hop_keys, (queue, due), &body),
            body,
        }
    }

    /// Publishes messages for `queue`. If any is delayed, first makes sure that it will find its way back.
    pub(crate) async fn publish_to(
        &self,
        queue: &QueueName,
        batch: Vec<Publication>,
        patience: Patience,
        operation: &'static str,
    ) -> Vec<Outcome> {
        let is_delayed = |it: &Publication| topology::is_delay_queue(it.key.as_str());
        if batch.iter().any(is_delayed)
            && let Err(failed) = self.bind_delays(queue, operation).await
        {
            return batch.iter().map(|_| Err(failed.again())).collect();
        }
        let outcomes = self.publisher.publish(batch, patience, operation).await;
        if outcomes.iter().any(|it| matches!(it, Ok(Published::NotRouted))) {
            // Somebody has deleted queues, and perhaps the bindings with them: check again next time.
            self.routes.forget(queue);
        }
        outcomes
    }

    /// How many messages the queue `name` has ready. If it does not exist, the error names `queue`.
    pub(crate) async fn ready_count(
        &self,
        queue: &QueueName,
        name: &str,
        operation: &'static str,
    ) -> Result<u64, TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declare = channel.queue_declare(name.into(), passive, FieldTable::default());
        let found = self.requests.with_timeout(declare, operation).await?;
        self.requests.reuse(channel);
        let found = found.map_err(|source| for_queue(&source, queue, operation))?;
        Ok(found.message_count().into())
    }

    /// The consumer timeout of a queue, if it has one of its own and the management API tells it.
    async fn consumer_timeout_of(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Option<Duration> {
        let seen = self.management.as_ref()?.queue(queue.as_str(), operation).await.ok()??;
        DescribedQueue::new(queue.as_str(), QueueRole::Work, &seen).consumer_timeout()
    }

    pub(crate) fn register(&self, pair: &Arc<ConsumerPair>) {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.retain(|pair| pair.strong_count() > 0);
        pairs.push(Arc::downgrade(pair));
    }

    /// How many messages of a queue are prefetched and not handed out.
    pub(crate) fn prefetched_count(&self, queue: &QueueName) -> u64 {
        self.consumers_of(queue).iter().map(|pair| pair.waiting() as u64).sum()
    }

    /// The consumers of a queue in this process.
    pub(crate) fn consumers_of(&self, queue: &QueueName) -> Vec<Arc<ConsumerPair>> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let live = pairs.iter().filter_map(Weak::upgrade);
        live.filter(|pair| pair.queue == *queue).collect()
    }
}

/// Generates dead-letter ids whose numbers sort by time.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterIdGenerator(AtomicI64);

impl DeadLetterIdGenerator {
    /// Milliseconds, and a random part: other processes dead-letter in the same millisecond.
    pub(crate) fn next(&self, now: Timestamp) -> DeadLetterId {
        const RANDOM_BITS: u32 = 21;
        let random = i64::from(rand::random::<u32>() >> (u32::BITS - RANDOM_BITS));
        let least = (now.as_millisecond().max(0) << RANDOM_BITS) | random;
        let raise = |last: i64| Some(least.max(last + 1));
        let last = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, raise);
        DeadLetterId::from_number(least.max(last.unwrap_or(0) + 1))
    }
}

#[async_trait]
impl Transport for RabbitTransport {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::new(TRANSPORT, self.inner.options.max_message_bytes);
        can.topics = true;
        can.subscriptions = true;
        can.ordering = true;
        can.scheduled = Some(self.inner.options.max_delay);
        can.time_to_live = true;
        can.batching = true;
        can.native_dead_letters = true;
        can.durable = true;
        can.leases = Leases::HeldByConnection;
        can.fencing = true;
        can.settlement = SettlementDurability::Submitted;
        can.acquired = Counting::AtLeast;
        can.wakes = true;
        can.lag = LAG;
        can.dead_letter_feed = true;
        can
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        if let Destination::Queue(queue) = to
            && batch.iter().any(|outgoing| !outgoing.delay.is_zero())
            && let Err(failed) = self.inner.look_up_route(queue, "send").await
        {
            return batch.iter().map(|_| Err(failed.again())).collect();
        }
        let mut accepted = Vec::with_capacity(batch.len());
        let mut prepare = |outgoing| self.publication(to, outgoing).map(|it| accepted.push(it));
        let prepared: Vec<Result<(), TransportError>> = batch.iter().map(&mut prepare).collect();
        let outcomes = match to {
            Destination::Queue(queue) => {
                self.inner.publish_to(queue, accepted, Patience::Limited, "send").await
            }
            _ => self.inner.publisher.publish(accepted, Patience::Limited, "send").await,
        };
        let mut outcomes = outcomes.into_iter();
        let sent = |it: Result<(), TransportError>| match it
            .and_then(|()| outcomes.next().expect("one outcome for each accepted message"))?
        {
            Published::Stored => Ok(Acceptance::New),
            Published::NotRouted => Err(not_routed(to)),
        };
        prepared.into_iter().map(sent).collect()
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        match self.inner.ready_count(queue, queue.as_str(), "subscribe").await {
            Err(failed) if matches!(failed.kind, ErrorKind::QueueNotFound(_)) => {
                return Err(self.inner.missing_queue(queue, "subscribe").await);
            }
            found => found?,
        };
        self.inner.refuse_stream(queue, "subscribe").await?;
        self.inner.ensure_dead_lettering(queue, "subscribe").await?;
        let pair = ConsumerPair::new(self.inner.clone(), queue.clone(), options)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), "subscribe"))?;
        if let Some(timeout) = self.inner.consumer_timeout_of(queue, "subscribe").await {
            pair.timeouts.shorten(timeout);
        }
        unroutable::watch(&self.inner);
        Ok(Box::new(RabbitSubscription::new(pair)))
    }
}

/// For a delay that is too long there are no delay queues. The error names the option that decides about them.
fn naming_max_delay(mut refused: TransportError) -> TransportError {
    if let ErrorKind::Invalid(invalid) = &mut refused.kind
        && invalid.field == "delay"
    {
        invalid.problem += "; raise max_delay to allow more";
    }
    refused
}

fn not_routed(to: &Destination) -> TransportError {
    match to {
        Destination::Queue(queue) => queue_not_found(queue, "send"),
        Destination::Topic { name, .. } => queue_not_found(name, "send")
            .with_source("no queue is bound to this exchange for this key"),
        _ => error(ErrorKind::Other, "send"),
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::{Message, MessageId, MessageType, millis};

    use super::*;

    #[test]
    fn a_delay_that_is_too_long_is_refused_with_the_name_of_the_option() {
        let transport = RabbitTransport::open(Options::from_url("amqp://localhost").unwrap());
        let (id, kind) = (MessageId::new("m").unwrap(), MessageType::new("t").unwrap());
        let message = Message::new(id, kind, millis(0), "body");
        let late = Outgoing::from(message).after(Duration::from_secs(15 * 60 * 60));
        let to = Destination::Queue(QueueName::new("q").unwrap());
        let refused = transport.unwrap().publication(&to, &late).err().unwrap().to_string();
        assert!(refused.contains("14 h") && refused.contains("raise max_delay"), "{refused}");
    }

    #[test]
    fn dead_letter_ids_grow() {
        let ids = DeadLetterIdGenerator::default();
        let given: Vec<_> = [5, 5, 4, 6].map(|time| ids.next(millis(time))).to_vec();
        assert!(given.is_sorted_by(|a, b| a.number() < b.number()), "{given:?}");
        assert!(ids.next(millis(253_402_200_000_000)).number() > 0, "in the year 9999 as well");
    }
}
