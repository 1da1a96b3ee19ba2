//! From a URL to queues.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock, DeadLetter, DeadLetterIds, DeadLetterPage, ErrorKind, MessageId, QueueAdmin, QueueName,
    Transport, TransportError, catalogue::Catalogue,
};
use bezoar_runtime::{Host, MessageBuilder, Publisher, RunError, Shutdown, TypedMessage, Worker};
use serde::Serialize;

use crate::drivers::{self, invalid};

/// Opens the queues behind `url`: `sqlite:PATH`, `memory:`, with the feature `postgres`
/// `postgres://USER@HOST/DATABASE`, with the feature `rabbitmq` `amqp://…`, or with the feature
/// `azure` `azurequeue:CONNECTION_STRING`. Without a connection string, `AZURE_STORAGE_CONNECTION_STRING` is used. In place of
/// a key, it can name a credential of Entra ID: `azurequeue:AccountName=lab;Credential=managed-identity`. A broker, a database
/// server or an account is first contacted when it is needed.
///
/// # Errors
///
/// Kind `Invalid` for a URL that no transport here understands; otherwise what the transport says.
pub async fn connect(url: &str) -> Result<Bezoar, TransportError> {
    drivers::open(url).await
}

/// How long to wait for the next dead letter of a broker before believing that it was the last.
const LAST_LETTER: Duration = Duration::from_secs(2);

/// Open queues: to send to, to handle messages of, to inspect. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bezoar {
    transport: Arc<dyn Transport>,
    admin: Arc<dyn QueueAdmin>,
    publisher: Publisher,
    catalogue: Option<Arc<dyn Catalogue>>,
}

impl Bezoar {
    /// Uses a transport that was opened by hand.
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

    /// The same, sending with another clock.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.publisher = self.publisher.with_clock(clock);
        self
    }

    /// Creates a queue if it is missing.
    ///
    /// # Errors
    ///
    /// Kind `Invalid` for an invalid name; otherwise what the transport says.
    pub async fn provision(&self, queue: &str) -> Result<(), TransportError> {
        self.admin.provision(&name(queue)?).await
    }

    /// Sends a value as JSON. Returns the message's id once it is stored.
    ///
    /// # Errors
    ///
    /// As [`Publisher::send`]; kind `QueueNotFound` if the queue was not provisioned.
    pub async fn send(
        &self,
        queue: &str,
        message_type: &str,
        value: &impl Serialize,
    ) -> Result<MessageId, TransportError> {
        self.publisher.send(queue, message_type, value).await
    }

    /// Sends a value whose type of message is known, as JSON. Returns the message's id once it is stored.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_message<T: TypedMessage + Serialize>(
        &self,
        queue: &str,
        value: &T,
    ) -> Result<MessageId, TransportError> {
        self.publisher.send_message(queue, value).await
    }

    /// Begins a message with `value` as its body: add a delay, headers, a correlation id and more, and send it with
    /// [`send_to`](MessageBuilder::send_to).
    pub fn message<T: TypedMessage + Serialize>(&self, value: &T) -> MessageBuilder {
        self.publisher.message(value)
    }

    /// Begins a message of a type that is named here; otherwise as [`message`](Self::message).
    pub fn message_of_type(&self, message_type: &str, value: &impl Serialize) -> MessageBuilder {
        self.publisher.message_of_type(message_type, value)
    }

    /// Handles messages of a queue, which is created if it is missing, until Ctrl-C or SIGTERM. The first signal lets running
    /// handlers finish; a second one stops at once.
    ///
    /// # Errors
    ///
    /// [`RunError`], with a kind to decide by. A transport that fails meanwhile pauses the worker, and is logged.
    pub async fn run(&self, worker: Worker) -> Result<(), RunError> {
        self.run_all([worker]).await
    }

    /// Handles messages of several queues as [`run`](Self::run) does of one.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); no worker starts unless all queues are available.
    pub async fn run_all(&self, workers: impl IntoIterator<Item = Worker>) -> Result<(), RunError> {
        let shutdown = Shutdown::default();
        let workers = workers.into_iter().collect();
        let mut running = std::pin::pin!(self.work(workers, shutdown.clone()));
        tokio::select! {
            ran = &mut running => return ran,
            heard = shutdown.listen() => heard.map_err(RunError::no_signals)?,
        }
        running.await // the second signal: messages are handed back, quickly
    }

    /// Handles messages of a queue, which is created if it is missing, until told to stop. For several queues there is
    /// [`Host`].
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_until(&self, worker: Worker, shutdown: Shutdown) -> Result<(), RunError> {
        self.work(vec![worker], shutdown).await
    }

    async fn work(&self, workers: Vec<Worker>, shutdown: Shutdown) -> Result<(), RunError> {
        for worker in &workers {
            worker.check()?;
        }
        let mut host = Host::new();
        for worker in workers {
            let queue = worker.queue().clone();
            let provisioned = self.admin.provision(&queue).await;
            provisioned.map_err(|error| RunError::queue_unavailable(queue, error))?;
            host = host.worker(self.transport.clone(), worker);
        }
        host.run(shutdown).await
    }

    /// The first 100 dead letters of a queue; the
    /// [access](bezoar_core::QueueAdmin::dead_letter_access) of [`admin`](Self::admin) pages through all.
    ///
    /// # Errors
    ///
    /// Kind `Unsupported` where dead letters can only be taken in turn, as on RabbitMQ; `QueueNotFound` or
    /// `Invalid`; otherwise what the transport says.
    pub async fn dead_letters(&self, queue: &str) -> Result<Vec<DeadLetter>, TransportError> {
        let Some(access) = self.admin.dead_letter_access() else {
            return Err(TransportError::new(
                ErrorKind::Unsupported("lists of dead letters"),
                self.transport.capabilities().transport,
                "dead_letters",
            ));
        };
        access.dead_letters(&name(queue)?, DeadLetterPage::default()).await
    }

    /// Sends all dead letters of a queue back to it, each once, with retries counted anew.
    ///
    /// # Errors
    ///
    /// Kind `QueueNotFound` or `Invalid`; otherwise what the transport says.
    pub async fn replay(&self, queue: &str) -> Result<u64, TransportError> {
        let queue = name(queue)?;
        if let Some(access) = self.admin.dead_letter_access() {
            return access.replay(&queue, &DeadLetterIds::All).await;
        }
        let Some(feed) = self.admin.dead_letter_feed(&queue).await? else { return Ok(0) };
        let most = self.admin.depth(&queue).await?.dead.unwrap_or(u64::MAX);
        feed.replay_all(most, LAST_LETTER).await
    }

    /// The transport itself.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The operator's side.
    pub fn admin(&self) -> &Arc<dyn QueueAdmin> {
        &self.admin
    }

    /// Dead letters grouped by cause, operations on them and an audit log; `None` if the transport keeps none. With the
    /// feature `ops`, `ops::Conductor` carries out the operations that are planned there.
    pub fn catalogue(&self) -> Option<&Arc<dyn Catalogue>> {
        self.catalogue.as_ref()
    }

    /// Builds and sends messages.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }
}

fn name(queue: &str) -> Result<QueueName, TransportError> {
    QueueName::new(queue).map_err(invalid)
}
