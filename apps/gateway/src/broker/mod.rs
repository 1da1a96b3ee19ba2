//! A broker whose queues have prefixed names in the gateway: `hospital/results`.
//!
//! [`BrokerTransport`] is what a kind of broker must offer, and `kinds.rs` lists the kinds by the scheme of their URLs.

mod azure;
mod kinds;
mod postgres;
mod rabbitmq;
mod server_url;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use async_trait::async_trait;
use bezoar::{
    Acceptance, Capabilities, DeadLetterFeed, Depth, Destination, ErrorKind, Finding, Invalid,
    Outgoing, QueueAdmin, QueueName, SubscribeOptions, Subscription, Transport, TransportError,
    poison_retry::{PoisonQueue, RetryFields},
};

pub use azure::{AccountConfig, AzureConfig, CredentialKind, ErrorTextsChoice, ForeignTextChoice};
pub use kinds::TransportSettings;
pub(crate) use kinds::{KINDS, KindSettings, QueueProblem, RouteDefaults, TransportKind};
pub use postgres::PostgresConfig;
pub(crate) use postgres::{SCHEMES as POSTGRES_SCHEMES, STORE_KEYS as POSTGRES_STORE_KEYS};
pub use rabbitmq::{QueueKind, RabbitMqConfig, ReturnQueueMode};

use crate::config::{Config, DeadLetterMode, TransportConfig};

/// What the gateway needs of a broker beside the contract of transports.
#[async_trait]
pub(crate) trait BrokerTransport: Transport + QueueAdmin {
    /// The same connections with another way of dead-lettering.
    fn dead_lettering(&self, mode: DeadLetterMode) -> Arc<dyn BrokerTransport>;

    /// Creates what is missing for a queue, also what somebody has deleted.
    async fn repair(&self, queue: &QueueName) -> Result<(), TransportError>;

    /// Whether nothing of a queue is left.
    async fn has_nothing_of(&self, queue: &QueueName) -> Result<bool, TransportError>;

    /// Everything that queues need, for an administrator to create. Asks nobody.
    fn plan(&self, queues: &[QueueName], form: PlanForm) -> Result<String, TransportError>;

    /// Checks queues, and once what they share.
    async fn validate_all(&self, queues: &[QueueName]) -> Result<BrokerFindings, TransportError>;

    /// Checks the dead letters of a queue of which nothing else is used. Changes nothing.
    async fn validate_dead_letters(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError>;

    /// Queues of the broker's own that collect dead letters, whatever is configured.
    fn dead_letter_collectors(&self) -> Vec<QueueName>;

    /// Removes bodies outside of messages that are older than `age` and that no message needs; returns how many.
    async fn remove_orphans(&self, _age: Duration) -> Result<u64, TransportError> {
        Ok(0)
    }

    /// A poison queue whose messages can be delivered again.
    fn poison_queue(
        &self,
        _queue: &QueueName,
        _fields: RetryFields,
    ) -> Result<Arc<dyn PoisonQueue>, TransportError> {
        let kind = ErrorKind::Unsupported("poison queues");
        Err(TransportError::new(kind, "gateway", "poison_retry"))
    }
}

/// The form in which an administrator gets what to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanForm {
    /// Commands for a shell.
    Commands,
    /// A definitions file of RabbitMQ.
    Definitions,
    /// The same, with policies instead of arguments.
    Policies,
}

/// What is wrong with a broker and some of its queues.
#[derive(Debug)]
pub(crate) struct BrokerFindings {
    /// What is wrong with the broker, and with what all queues share.
    pub(crate) shared: Vec<Finding>,
    /// What is wrong with each queue, in the order in which they were given.
    pub(crate) queues: Vec<Result<Vec<Finding>, TransportError>>,
}

/// A broker. All queue names in its API have the prefix.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    /// `hospital/`.
    prefix: Arc<str>,
    inner: Arc<dyn BrokerTransport>,
    provisions: bool,
    /// Queues whose dead-letter queue belongs to somebody else: nothing is created for them alone.
    own_dead_letter_queues: Arc<BTreeSet<QueueName>>,
    /// Queues of which nothing was left, until they are provisioned again.
    lost: Arc<Mutex<BTreeSet<QueueName>>>,
}

impl Broker {
    /// Validates the configuration. The connection is opened on first use.
    pub(crate) fn open(config: &TransportConfig, all: &Config) -> Result<Self> {
        let name = &config.name;
        let settings = config.settings.of_kind();
        let inner = settings.open(name, all)?;
        let own = all.queues.iter().filter(|queue| queue.dead_letter_queue.is_some());
        let own = own.filter_map(|queue| all.broker(&queue.name).map(|(_, there)| there));
        Ok(Self {
            prefix: format!("{name}/").into(),
            own_dead_letter_queues: Arc::new(own.chain(inner.dead_letter_collectors()).collect()),
            inner,
            provisions: settings.provisions(),
            lost: Arc::default(),
        })
    }

    /// The same broker with another way of dead-lettering.
    pub(crate) fn dead_lettering(&self, mode: DeadLetterMode) -> Self {
        Self { inner: self.inner.dead_lettering(mode), ..self.clone() }
    }

    /// Queues of the broker's own that collect dead letters, by their names in the gateway.
    pub(crate) fn dead_letter_collectors(&self) -> Vec<QueueName> {
        self.inner.dead_letter_collectors().iter().filter_map(|queue| self.here(queue)).collect()
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

    /// Everything that queues need, for an administrator to create.
    pub(crate) fn plan(
        &self,
        queues: &[QueueName],
        form: PlanForm,
    ) -> Result<String, TransportError> {
        self.inner.plan(&self.all_there(queues)?, form)
    }

    /// A poison queue whose messages can be delivered again.
    pub(crate) fn poison_queue(
        &self,
        queue: &QueueName,
        fields: RetryFields,
    ) -> Result<Arc<dyn PoisonQueue>, TransportError> {
        self.inner.poison_queue(&self.there(queue)?, fields)
    }

    /// Checks queues, and once what they share.
    pub(crate) async fn validate_all(
        &self,
        queues: &[QueueName],
    ) -> Result<BrokerFindings, TransportError> {
        self.inner.validate_all(&self.all_there(queues)?).await
    }

    /// Checks the dead letters of a queue of which nothing else is used.
    pub(crate) async fn validate_dead_letters(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        self.inner.validate_dead_letters(&self.there(queue)?).await
    }

    /// Removes bodies outside of messages that no message needs.
    pub(crate) async fn remove_orphans(&self, age: Duration) -> Result<u64, TransportError> {
        self.inner.remove_orphans(age).await
    }

    fn all_there(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, TransportError> {
        queues.iter().map(|queue| self.there(queue)).collect()
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

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
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
