//! A broker whose queues have prefixed names in the gateway: `hospital/results`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use bezoar::{
    Capabilities, DeadLetterFeed, Depth, Destination, ErrorKind, Finding, Invalid, Outgoing,
    QueueAdmin, QueueName, SubscribeOptions, Subscription, Transport, TransportError,
    rabbitmq::{
        BrokerFindings, DeadLetterNames, DeadLettering, Options, Pem, QueueType, RabbitTransport,
        Topology, UNROUTABLE,
    },
};

use crate::config::{self, Config, DeadLetterMode, QueueKind};

/// The names of dead-letter exchanges and queues that are configured, by queue of the broker.
fn dead_letter_names(broker: &config::Name, all: &Config) -> BTreeMap<QueueName, DeadLetterNames> {
    let text = |name: &Option<config::BrokerName>| name.as_ref().map(|it| it.as_str().to_owned());
    let of_broker = all.queues.iter().filter_map(|queue| {
        let (transport, there) = all.broker(&queue.name)?;
        let names = DeadLetterNames {
            exchange: text(&queue.dead_letter_exchange),
            key: text(&queue.dead_letter_key),
            queue: text(&queue.dead_letter_queue),
        };
        (transport.name == *broker && names != DeadLetterNames::default()).then_some((there, names))
    });
    of_broker.collect()
}

/// A broker. All queue names in its API have the prefix.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    /// `hospital/`.
    prefix: Arc<str>,
    inner: RabbitTransport,
    provisions: bool,
    /// Queues whose dead-letter queue belongs to somebody else: nothing is created for them alone.
    own_dead_letter_queues: Arc<BTreeSet<QueueName>>,
    /// Queues of which nothing was left, until they are provisioned again.
    lost: Arc<Mutex<BTreeSet<QueueName>>>,
}

impl Broker {
    /// Validates the configuration. The connection is opened on first use.
    pub(crate) fn open(config: &config::TransportConfig, all: &Config) -> Result<Self> {
        let name = &config.name;
        let routes = all.routes.iter().filter(|route| {
            all.broker(&route.from).is_some_and(|(transport, _)| transport.name == *name)
        });
        let options = Options {
            management_url: config.management_url.clone().map(Into::into),
            management_ca: config.management_ca.clone().map(Pem::File),
            tls_ca: config.tls_ca.clone().map(Pem::File),
            tls_certificate: config.tls_certificate.clone().map(Pem::File),
            tls_key: config.tls_key.clone().map(Pem::File),
            handler_timeout: routes.map(|route| route.timeout).max(),
            queue_type: match config.queue_type {
                QueueKind::Quorum => QueueType::Quorum,
                QueueKind::Classic => QueueType::Classic,
            },
            max_message_bytes: usize::try_from(all.server.max_body_bytes)?,
            dead_letter_names: dead_letter_names(name, all),
            max_delay: config.max_delay,
            ..Options::from_url(config.url.reveal())
                .with_context(|| format!("transports.{name}.url"))?
        };
        let inner = RabbitTransport::open(options)
            .with_context(|| format!("cannot use transports.{name}"))?;
        let own = all.queues.iter().filter(|queue| queue.dead_letter_queue.is_some());
        let own = own.filter_map(|queue| all.broker(&queue.name).map(|(_, there)| there));
        let unroutable = QueueName::new(UNROUTABLE).expect("it is a valid name");
        Ok(Self {
            prefix: format!("{name}/").into(),
            inner,
            provisions: config.provision,
            own_dead_letter_queues: Arc::new(own.chain([unroutable]).collect()),
            lost: Arc::default(),
        })
    }

    /// The same broker with another way of dead-lettering.
    pub(crate) fn dead_lettering(&self, mode: DeadLetterMode) -> Self {
        let mode = match mode {
            DeadLetterMode::Publish => DeadLettering::Publish,
            DeadLetterMode::Reject => DeadLettering::Reject,
        };
        Self { inner: self.inner.dead_lettering(mode), ..self.clone() }
    }

    /// Creates what is missing for a queue, even if provisioning is turned off.
    pub(crate) async fn make(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.inner.repair(&self.there(queue)?).await
    }

    /// Whether nothing of a queue is left, so that its virtual host was created again; also if it was so before and
    /// provisioning it has not succeeded since. A single queue that is gone was deleted by somebody.
    async fn lost_everything(&self, there: &QueueName) -> Result<bool, TransportError> {
        if self.lost().contains(there) {
            return Ok(true);
        }
        let nothing = self.inner.has_nothing_of(there).await?;
        if nothing {
            self.lost().insert(there.clone());
        }
        Ok(nothing)
    }

    fn lost(&self) -> MutexGuard<'_, BTreeSet<QueueName>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The virtual host, and everything that a queue needs in it.
    pub(crate) fn plan(&self, queue: &QueueName) -> Result<(String, Topology), TransportError> {
        self.inner.plan(&[self.there(queue)?])
    }

    /// Checks queues, and once what they share.
    pub(crate) async fn validate_all(
        &self,
        queues: &[QueueName],
    ) -> Result<BrokerFindings, TransportError> {
        let there = queues.iter().map(|queue| self.there(queue)).collect::<Result<Vec<_>, _>>()?;
        self.inner.validate_all(&there).await
    }

    /// The name of a queue on the broker.
    pub(crate) fn there(&self, queue: &QueueName) -> Result<QueueName, TransportError> {
        let name = queue.as_str().strip_prefix(&*self.prefix).unwrap_or_default();
        QueueName::new(name).map_err(|_| {
            let invalid = Invalid::new("queue", format!("does not start with {}", self.prefix));
            TransportError::new(ErrorKind::Invalid(invalid), "gateway", "look up")
        })
    }

    /// The name of a broker's queue in the gateway; `None` if it would be too long.
    fn here(&self, queue: &QueueName) -> Option<QueueName> {
        QueueName::new(format!("{}{queue}", self.prefix)).ok()
    }
}

#[async_trait]
impl Transport for Broker {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn send(&self, to: &Destination, batch: &[Outgoing]) -> Vec<Result<(), TransportError>> {
        let to = match to {
            Destination::Queue(queue) => self.there(queue).map(Destination::Queue),
            other => Ok(other.clone()),
        };
        match to {
            Ok(to) => self.inner.send(&to, batch).await,
            Err(error) => batch.iter().map(|_| Err(error.again())).collect(),
        }
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        let there = self.there(queue)?;
        match self.inner.subscribe(&there, options).await {
            Err(missing)
                if matches!(missing.kind, ErrorKind::QueueNotFound(_))
                    && self.provisions
                    && self.lost_everything(&there).await? =>
            {
                tracing::warn!(%queue, "nothing of this queue exists on the broker any more; it is provisioned again");
                self.inner.repair(&there).await?;
                self.lost().remove(&there);
                self.inner.subscribe(&there, options).await
            }
            subscribed => subscribed,
        }
    }
}

#[async_trait]
impl QueueAdmin for Broker {
    /// Creates what is missing, if provisioning is on. Opening the queue verifies that messages can be dead-lettered;
    /// other findings are for `bezoar check` and do not keep the queue from being consumed.
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        let there = self.there(queue)?;
        match self.provisions {
            true => self.inner.provision(&there).await,
            false => Ok(()),
        }
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        self.inner.validate(&self.there(queue)?).await
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        let queues = self.inner.queues().await?;
        Ok(queues.iter().filter_map(|queue| self.here(queue)).collect())
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        self.inner.depth(&self.there(queue)?).await
    }

    async fn dead_letter_feed(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        let there = self.there(queue)?;
        match self.inner.dead_letter_feed(&there).await {
            Err(missing)
                if matches!(missing.kind, ErrorKind::QueueNotFound(_))
                    && self.provisions
                    && !self.own_dead_letter_queues.contains(&there) =>
            {
                self.inner.provision(&there).await?;
                self.inner.dead_letter_feed(&there).await
            }
            feed => feed,
        }
    }
}
