//! `provision`: creates missing exchanges, queues and bindings, and changes none that exist.
//!
//! Everything is first looked up by a passive declaration. An existing queue or exchange is used as it is, whatever its
//! arguments are; whether that is safe is decided before consuming (`preconditions.rs`) and by `validate`.

use bezoar_core::{ErrorKind, QueueName, TransportError};
use lapin::{
    Channel,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use tokio::time::{Instant, sleep};

use crate::{
    RabbitTransport, ReturnQueues,
    check::findings::{DescribedQueue, QueueRole},
    error::{AWAY_PAUSE, error, from_lapin, is_access_refused},
    topology::{Binding, Exchange, Queue, Topology, return_route::ReturnRoute},
};

const PROVISION: &str = "provision";

impl RabbitTransport {
    pub(crate) fn topology(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<Topology, TransportError> {
        Topology::for_queue(queue, &self.inner.options)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), operation))
    }

    /// Creates what is missing.
    pub(crate) async fn create(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.make(queue, false).await
    }

    /// Creates what is missing, as [`provision`](bezoar_core::QueueAdmin::provision) does, and also checks every part of
    /// the delay topology: `provision` takes it for complete if its last queue exists.
    ///
    /// # Errors
    ///
    /// The same as for `provision`.
    pub async fn repair(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.make(queue, true).await
    }

    /// Whether nothing that a queue needs exists: its virtual host is new, or was created again.
    ///
    /// # Errors
    ///
    /// The broker's error.
    pub async fn has_nothing_of(&self, queue: &QueueName) -> Result<bool, TransportError> {
        for wanted in &self.topology(queue, PROVISION)?.queues {
            if self.inner.has_queue(&wanted.name, PROVISION).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The virtual host, and everything that these queues need in it. Asks no broker.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a name that cannot be used.
    pub fn plan(&self, queues: &[QueueName]) -> Result<(String, Topology), TransportError> {
        let vhost = self.inner.vhost.clone();
        let mut topology = Topology::of_delays(&self.inner.options);
        for queue in queues {
            topology = topology.and(self.topology(queue, PROVISION)?);
        }
        Ok((vhost, topology))
    }

    /// Tries again for a while if another process is creating the same queue.
    async fn make(&self, queue: &QueueName, check_all_delays: bool) -> Result<(), TransportError> {
        let deadline = Instant::now() + self.inner.options.connect_timeout;
        loop {
            match self.make_once(queue, check_all_delays).await {
                Err(failed)
                    if matches!(failed.kind, ErrorKind::Throttled { .. })
                        && Instant::now() < deadline =>
                {
                    sleep(AWAY_PAUSE).await;
                }
                made => return made,
            }
        }
    }

    async fn make_once(
        &self,
        queue: &QueueName,
        check_all_delays: bool,
    ) -> Result<(), TransportError> {
        let options = &self.inner.options;
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), PROVISION);
        let topology = Topology::without_delays(queue, options).map_err(invalid)?;
        let delays = Topology::of_delays(options);
        if check_all_delays || !self.has_delay_topology(&delays).await? {
            self.create_all(&delays).await?;
        }
        self.create_all(&topology).await?;
        let direct = ReturnRoute::Direct.topology(queue, options).map_err(invalid)?;
        self.create_all(&direct).await?;
        let route = self.needed_route(queue).await?;
        if route == ReturnRoute::ThroughQueue {
            self.create_all(&route.topology(queue, options).map_err(invalid)?).await?;
        }
        self.inner.routes.learn(queue, route);
        Ok(())
    }

    /// How delayed messages of a queue that exists should come back to it.
    async fn needed_route(&self, queue: &QueueName) -> Result<ReturnRoute, TransportError> {
        let needs = self.inner.options.return_queues == ReturnQueues::Always
            || self.can_be_full(queue).await?
            || self.inner.existing_route(queue, PROVISION).await? == ReturnRoute::ThroughQueue;
        Ok(if needs { ReturnRoute::ThroughQueue } else { ReturnRoute::Direct })
    }

    /// Whether a queue may refuse messages because it is full. Without the management API, a queue with our arguments
    /// counts as one that does not, and every other one as one that may.
    async fn can_be_full(&self, queue: &QueueName) -> Result<bool, TransportError> {
        let name = queue.as_str();
        if let Some(management) = &self.inner.management
            && let Ok(Some(seen)) = management.queue(name, PROVISION).await
        {
            return Ok(DescribedQueue::new(name, QueueRole::Work, &seen).can_be_full());
        }
        let topology = self.topology(queue, PROVISION)?;
        Ok(self.inner.declared_again(&topology, name, PROVISION).await?.is_err())
    }

    /// Whether the delay topology is complete: its last queue is created last.
    async fn has_delay_topology(&self, delays: &Topology) -> Result<bool, TransportError> {
        match delays.queues.last() {
            Some(last) => self.inner.has_queue(&last.name, PROVISION).await,
            None => Ok(true),
        }
    }

    /// Creates bindings before the last queue, whose existence stands for the whole topology.
    async fn create_all(&self, topology: &Topology) -> Result<(), TransportError> {
        for exchange in &topology.exchanges {
            if !self.inner.has_exchange(&exchange.name, PROVISION).await? {
                self.make_exchange(exchange).await?;
            }
        }
        let (last, others) = match topology.queues.split_last() {
            Some((last, others)) => (Some(last), others),
            None => (None, &[][..]),
        };
        for queue in others {
            self.make_queue(queue).await?;
        }
        let of_last = |it: &&Binding| last.is_some_and(|last| it.to == last.name);
        for binding in topology.bindings.iter().filter(|it| !of_last(it)) {
            self.make_binding(binding).await?;
        }
        if let Some(last) = last {
            self.make_queue(last).await?;
        }
        for binding in topology.bindings.iter().filter(of_last) {
            self.make_binding(binding).await?;
        }
        Ok(())
    }

    async fn make_exchange(&self, exchange: &Exchange) -> Result<(), TransportError> {
        let channel = self.inner.requests.request_channel(PROVISION).await?;
        let what = || format!("create exchange {:?}", exchange.name);
        self.made(&channel, declare_exchange(&channel, exchange), what).await
    }

    async fn make_queue(&self, queue: &Queue) -> Result<(), TransportError> {
        if self.inner.has_queue(&queue.name, PROVISION).await? {
            return Ok(());
        }
        let channel = self.inner.requests.request_channel(PROVISION).await?;
        let what = || format!("create queue {:?}", queue.name);
        self.made(&channel, declare_queue(&channel, queue), what).await
    }

    /// Binds a queue, unless its exchange leads to it already in another way.
    async fn make_binding(&self, binding: &Binding) -> Result<(), TransportError> {
        let Binding { from, to, key } = binding;
        if let Some(management) = self.inner.management.as_ref().filter(|_| !is_ours(from))
            && let Ok(behind) = management.queues_behind(from, key, PROVISION).await
            && behind.contains(to)
        {
            return Ok(());
        }
        let channel = self.inner.requests.request_channel(PROVISION).await?;
        let what = || format!("bind queue {:?} to exchange {:?}", binding.to, binding.from);
        self.made(&channel, bind(&channel, binding), what).await
    }

    async fn made(
        &self,
        channel: &Channel,
        making: impl Future<Output = lapin::Result<()>>,
        what: impl FnOnce() -> String,
    ) -> Result<(), TransportError> {
        let made = self.inner.requests.with_timeout(making, PROVISION).await?;
        self.inner.requests.reuse(channel.clone());
        made.map_err(|source| match is_access_refused(&source) {
            true => error(ErrorKind::NotAuthorized, PROVISION).with_source(format!(
                "the user lacks the permission to {}; grant it on the broker, or let an administrator run \
                 `bezoar provision` ({source})",
                what()
            )),
            false => from_lapin(&source, PROVISION),
        })
    }
}

/// Whether an exchange belongs to this program, so that nobody else binds it.
fn is_ours(exchange: &str) -> bool {
    exchange.starts_with("bezoar.")
}

pub(crate) async fn declare_exchange(channel: &Channel, exchange: &Exchange) -> lapin::Result<()> {
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let (name, kind) = (exchange.name.as_str().into(), exchange.kind.clone());
    channel.exchange_declare(name, kind, durable, exchange.arguments.clone()).await
}

pub(crate) async fn declare_queue(channel: &Channel, queue: &Queue) -> lapin::Result<()> {
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    let name = queue.name.as_str().into();
    channel.queue_declare(name, durable, queue.arguments.clone()).await.map(|_| ())
}

pub(crate) async fn bind(channel: &Channel, binding: &Binding) -> lapin::Result<()> {
    let (from, key) = (binding.from.as_str().into(), binding.key.as_str().into());
    let (to, options) = (binding.to.as_str().into(), QueueBindOptions::default());
    channel.queue_bind(to, from, key, options, FieldTable::default()).await
}
