//! From a URL to queues. The one list of transports.

use std::{error::Error, sync::Arc};

use bezoar_core::{
    Clock, DeadLetter, DeadLetterIds, DeadLetterPage, ErrorKind, Invalid, MessageId, QueueAdmin,
    QueueName, Transport, TransportError, catalogue::Catalogue,
};
use bezoar_memory::MemoryTransport;
use bezoar_runtime::{Host, Publisher, Shutdown, Worker};
use serde::Serialize;

/// Opens the queues behind `url`: `sqlite:PATH`, `memory:`, or with the feature `rabbitmq` `amqp://…`, whose broker
/// is first spoken to when it is needed.
///
/// # Errors
///
/// Kind `Invalid` for a URL that no transport here understands; otherwise what the transport says.
pub async fn connect(url: &str) -> Result<Bezoar, TransportError> {
    match url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let options = bezoar_sqlite::Options::from_url(url).map_err(invalid)?;
            let opened =
                tokio::task::spawn_blocking(|| bezoar_sqlite::SqliteTransport::open(options));
            let opened = opened.await.map_err(|source| other("connect").with_source(source))??;
            Ok(Bezoar::new(opened.clone()).with_catalogue(Arc::new(opened)))
        }
        #[cfg(feature = "rabbitmq")]
        Some("amqp" | "amqps") => {
            let options = bezoar_rabbitmq::Options::from_url(url).map_err(invalid)?;
            Ok(Bezoar::new(bezoar_rabbitmq::RabbitTransport::open(options)?))
        }
        Some("memory") => Ok(Bezoar::new(MemoryTransport::default())),
        _ => Err(invalid(Invalid::new(
            "url",
            "is none of sqlite:PATH, memory: and, with the feature rabbitmq, amqp://HOST",
        ))),
    }
}

fn invalid(invalid: Invalid) -> TransportError {
    TransportError::new(ErrorKind::Invalid(invalid), "bezoar", "connect")
}

fn other(operation: &'static str) -> TransportError {
    TransportError::new(ErrorKind::Other, "bezoar", operation)
}

/// Open queues: to send to, to work on, to look at. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bezoar {
    transport: Arc<dyn Transport>,
    admin: Arc<dyn QueueAdmin>,
    publisher: Publisher,
    catalogue: Option<Arc<dyn Catalogue>>,
}

impl Bezoar {
    /// The queues of a transport that was opened by hand.
    pub fn new(transport: impl Transport + QueueAdmin + Clone) -> Self {
        let (transport, admin) = (Arc::new(transport.clone()), Arc::new(transport));
        let publisher = Publisher::new(transport.clone());
        Self { transport, admin, publisher, catalogue: None }
    }

    /// The same, with a catalogue of its dead letters.
    pub fn with_catalogue(mut self, catalogue: Arc<dyn Catalogue>) -> Self {
        self.catalogue = Some(catalogue);
        self
    }

    /// The same, sending by another clock.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.publisher = self.publisher.with_clock(clock);
        self
    }

    /// Creates a queue if it is not there.
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for a name that is none; otherwise what the transport says.
    pub async fn provision(&self, queue: &str) -> Result<(), TransportError> {
        self.admin.provision(&name(queue)?).await
    }

    /// Sends a value as JSON. Returns the message's id once it is stored.
    ///
    /// # Errors
    ///
    /// As of [`Publisher::send`]; kind `QueueNotFound` if the queue was not provisioned.
    pub async fn send(
        &self,
        queue: &str,
        message_type: &str,
        value: &impl Serialize,
    ) -> Result<MessageId, TransportError> {
        self.publisher.send(queue, message_type, value).await
    }

    /// Works on a queue, which is created if it is not there, until Ctrl-C or SIGTERM; a second one
    /// stops at once.
    ///
    /// # Errors
    ///
    /// If the queue cannot be had, or the system gives us no signals.
    pub async fn run(&self, worker: Worker) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.run_all([worker]).await
    }

    /// Works on several queues as [`run`](Self::run) does on one.
    ///
    /// # Errors
    ///
    /// As of [`run`](Self::run); no worker starts unless all queues can be had.
    pub async fn run_all(
        &self,
        workers: impl IntoIterator<Item = Worker>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let shutdown = Shutdown::default();
        let workers = workers.into_iter().collect();
        let mut running = std::pin::pin!(self.work(workers, shutdown.clone()));
        tokio::select! {
            ran = &mut running => return Ok(ran?),
            heard = shutdown.listen() => heard?,
        }
        Ok(running.await?) // the second signal: messages are handed back, quickly
    }

    /// Works on a queue, which is created if it is not there, until told to stop. For several there is
    /// [`Host`].
    ///
    /// # Errors
    ///
    /// If the queue cannot be had, or by a defect of the worker itself. Trouble with the transport pauses
    /// the worker and is logged.
    pub async fn run_until(
        &self,
        worker: Worker,
        shutdown: Shutdown,
    ) -> Result<(), TransportError> {
        self.work(vec![worker], shutdown).await
    }

    async fn work(&self, workers: Vec<Worker>, shutdown: Shutdown) -> Result<(), TransportError> {
        let mut host = Host::new();
        for worker in workers {
            self.admin.provision(worker.queue()).await?;
            host = host.worker(self.transport.clone(), worker);
        }
        host.run(shutdown).await.map_err(|defect| other("connect").with_source(defect))
    }

    /// The first dead letters of a queue; [`admin`](Self::admin) pages through all.
    ///
    /// # Errors
    ///
    /// Kind `QueueNotFound` or `Invalid`; otherwise what the transport says.
    pub async fn dead_letters(&self, queue: &str) -> Result<Vec<DeadLetter>, TransportError> {
        self.admin.dead_letters(&name(queue)?, DeadLetterPage::default()).await
    }

    /// Sends all dead letters of a queue back to it, each once, with retries counted anew.
    ///
    /// # Errors
    ///
    /// Kind `QueueNotFound` or `Invalid`; otherwise what the transport says.
    pub async fn replay(&self, queue: &str) -> Result<u64, TransportError> {
        self.admin.replay(&name(queue)?, &DeadLetterIds::All).await
    }

    /// The transport itself.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The operator's side.
    pub fn admin(&self) -> &Arc<dyn QueueAdmin> {
        &self.admin
    }

    /// Its dead letters grouped by cause, replayed at a rate, with an audit log; `None` if the transport keeps
    /// none. [`ops::Conductor`](crate::ops::Conductor) carries out what is planned there.
    pub fn catalogue(&self) -> Option<&Arc<dyn Catalogue>> {
        self.catalogue.as_ref()
    }

    /// What makes and sends messages.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }
}

fn name(queue: &str) -> Result<QueueName, TransportError> {
    QueueName::new(queue).map_err(invalid)
}
