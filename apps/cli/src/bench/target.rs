//! The gateway under test: a temporary one, or one that is already running.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use bezoar::QueueName;
use clap::error::ErrorKind;
use tokio::time::Instant;

use super::{Arguments, arrivals::Arrivals};
use crate::{
    client::{ApiClient, Connection},
    local_endpoint::LocalEndpoint,
    queue_status::{self, QueueStatus},
    temporary_gateway::TemporaryGateway,
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The gateway under test, and what is known about its messages.
#[derive(Debug)]
pub(super) struct BenchTarget {
    pub(super) client: Arc<ApiClient>,
    pub(super) queue: QueueName,
    /// Stamps are relative to this.
    pub(super) epoch: Instant,
    /// The arrivals, if the endpoint runs in this process.
    pub(super) arrivals: Option<Arc<Arrivals>>,
    _endpoint: Option<LocalEndpoint>,
    sandbox: Option<TemporaryGateway>,
}

/// The state of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueCounts {
    /// Messages that are neither done nor dead-lettered.
    pub(super) waiting: u64,
    pub(super) dead: u64,
    /// Whether a route consumes the queue.
    pub(super) has_route: bool,
}

impl BenchTarget {
    /// The gateway given with `--url`, or a temporary one.
    pub(super) async fn find(arguments: &Arguments, connection: &Connection) -> Result<Self> {
        let epoch = Instant::now();
        let arrivals = Arrivals::new(epoch);
        if !connection.is_given() {
            return Self::own(arguments, epoch, arrivals).await;
        }
        let endpoint = match arguments.listen {
            Some(address) => Some(start(address, arrivals.clone()).await?),
            None => None,
        };
        Ok(Self {
            client: Arc::new(connection.client()?),
            queue: arguments.queue.clone(),
            epoch,
            arrivals: endpoint.is_some().then_some(arrivals),
            _endpoint: endpoint,
            sandbox: None,
        })
    }

    async fn own(arguments: &Arguments, epoch: Instant, arrivals: Arc<Arrivals>) -> Result<Self> {
        if arguments.listen.is_some() {
            let words = "--listen requires --url: the temporary gateway has its own endpoint\n";
            clap::Error::raw(ErrorKind::ArgumentConflict, words).exit();
        }
        let endpoint = start(LOOPBACK, arrivals.clone()).await?;
        let sandbox =
            TemporaryGateway::start(LOOPBACK, configuration(arguments, endpoint.address)?).await?;
        Ok(Self {
            client: Arc::new(sandbox.client()?),
            queue: arguments.queue.clone(),
            epoch,
            arrivals: Some(arrivals),
            _endpoint: Some(endpoint),
            sandbox: Some(sandbox),
        })
    }

    /// Its name in the report.
    pub(super) fn name(&self) -> String {
        match self.sandbox {
            Some(_) => "temporary gateway".to_owned(),
            None => self.client.url().to_string(),
        }
    }

    /// The current state of the queue.
    pub(super) async fn queue_counts(&self) -> Result<QueueCounts> {
        let queues: Vec<QueueStatus> = queue_status::fetch(&self.client).await?.parse()?;
        let Some(queue) = queues.iter().find(|it| it.queue == self.queue.as_str()) else {
            let known: Vec<_> = queues.iter().map(|queue| queue.queue.as_str()).collect();
            bail!("unknown queue {:?}; known queues: {}", self.queue, known.join(", "));
        };
        let waiting = [queue.ready, queue.delayed, queue.in_flight].into_iter().sum::<Option<_>>();
        Ok(QueueCounts {
            waiting: waiting.context("the gateway does not know how many messages wait")?,
            dead: queue.dead.context("the gateway does not know how many messages are dead")?,
            has_route: queue.route.is_some(),
        })
    }

    /// Stops the temporary gateway and removes its files.
    pub(super) async fn end(self) -> Result<()> {
        match self.sandbox {
            Some(sandbox) => sandbox.stop().await,
            None => Ok(()),
        }
    }
}

async fn start(address: SocketAddr, arrivals: Arc<Arrivals>) -> Result<LocalEndpoint> {
    LocalEndpoint::start(address, move |request| arrivals.clone().take(request)).await
}

fn configuration(arguments: &Arguments, endpoint: SocketAddr) -> Result<String> {
    // A JSON string is also a TOML string.
    let queue = serde_json::to_string(arguments.queue.as_str())?;
    let concurrency = arguments.connections;
    Ok(format!(
        "[[route]]\nname = \"bench\"\nfrom = {queue}\nto = \"http://{endpoint}/\"\nconcurrency = {concurrency}\n"
    ))
}
