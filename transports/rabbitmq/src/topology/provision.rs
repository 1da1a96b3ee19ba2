//! `provision`: creates missing exchanges, queues and bindings.

use bezoar_core::{ErrorKind, QueueName, TransportError};
use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use tokio::time::{Instant, sleep};

use crate::{
    RabbitTransport,
    error::{AWAY_PAUSE, error, from_lapin},
    topology::{Binding, Queue, Topology},
};

impl RabbitTransport {
    pub(crate) fn topology(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<Topology, TransportError> {
        Topology::for_queue(queue, self.inner.options.queue_type)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), operation))
    }

    /// Creates what is missing. An existing queue or exchange with different arguments is an error.
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
        let (topology, delays) = (self.topology(queue, "provision")?, Topology::of_delays());
        if check_all_delays || !self.has_delay_topology(&delays).await? {
            self.create_all(&delays).await?;
        }
        self.create_all(&topology).await
    }

    /// Whether the delay topology is complete: its last queue is created last.
    async fn has_delay_topology(&self, delays: &Topology) -> Result<bool, TransportError> {
        let Some(last) = delays.queues.last() else { return Ok(true) };
        Ok(self.check_queue(last).await?.is_none())
    }

    /// Creates bindings before the last queue, whose existence stands for the whole topology.
    async fn create_all(&self, topology: &Topology) -> Result<(), TransportError> {
        let channel = self.inner.requests.request_channel("provision").await?;
        for exchange in &topology.exchanges {
            self.made(declare_exchange(&channel, exchange)).await?;
        }
        let Some((last, others)) = topology.queues.split_last() else { return Ok(()) };
        for queue in others {
            self.made(declare_queue(&channel, queue)).await?;
        }
        let of_last = |it: &&Binding| it.to == last.name;
        for binding in topology.bindings.iter().filter(|it| !of_last(it)) {
            self.made(bind(&channel, binding)).await?;
        }
        self.made(declare_queue(&channel, last)).await?;
        for binding in topology.bindings.iter().filter(of_last) {
            self.made(bind(&channel, binding)).await?;
        }
        self.inner.requests.reuse(channel);
        Ok(())
    }

    async fn made(
        &self,
        making: impl Future<Output = lapin::Result<()>>,
    ) -> Result<(), TransportError> {
        let made = self.inner.requests.with_timeout(making, "provision").await?;
        made.map_err(|source| from_lapin(&source, "provision"))
    }
}

pub(crate) async fn declare_exchange(channel: &Channel, name: &str) -> lapin::Result<()> {
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let none = FieldTable::default();
    channel.exchange_declare(name.into(), ExchangeKind::Direct, durable, none).await
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
