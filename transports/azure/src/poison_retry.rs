//! Access to a poison queue for the retry processor.
//!
//! A message that was taken owns its pop receipt: an update stores the new one, and what comes after uses that. The body
//! of a message may be in Blob Storage; it is fetched with the message, kept with a dead letter, and deleted after a
//! delivery.

use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    CorrelationId, ErrorKind, FailedTry, Ledger, MessageId, QueueName, Reason, TransportError,
    poison_retry::{
        MissingSettings, PoisonContent, PoisonEnd, PoisonMessage, PoisonQueue, RetryFields,
    },
};
use jiff::Timestamp;

use crate::{
    Account, AzureTransport, InvalidOptions, Options,
    claim_check::NoBody,
    connection::queue_client::{Fetched, Queue, within_limit},
    consuming::fetcher::{Arrived, LeaseRequest, lease_with_bodies},
    error::{Fault, FaultKind, error},
    transport::TransportState,
    wire::{
        blob_reference,
        poison_record::Poisoned,
        retry_text::{self, RetryText},
        stored_text,
    },
};

/// The most bytes of bodies in Blob Storage in one batch.
const BATCH_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// A poison queue for the retry processor, `bezoar_runtime::PoisonRetry`. Messages that it gives up go to the poison queue
/// of this queue, as [`Options::poison_queues`] names it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AzurePoisonQueue(Arc<Access>);

#[derive(Debug)]
struct Access {
    state: Arc<TransportState>,
    queue: Queue,
    /// Where dead-letter records are stored.
    dead: Queue,
    fields: RetryFields,
}

/// The settings of a poison queue, as they come from a program's configuration: each may be missing.
#[derive(Debug, Clone, Default)]
pub struct PoisonQueueSettings {
    /// The connection string of the storage account, required.
    pub storage_connection: Option<secrecy::SecretString>,
    /// The name of the poison queue, required.
    pub poison_queue_name: Option<String>,
    /// The name of the queue for dead-letter records. By default `<poison queue>-dead`.
    pub dead_letter_queue_name: Option<String>,
    /// The names of JSON members in messages of other programs.
    pub fields: RetryFields,
}

/// Why a poison queue cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoisonSettingsError {
    /// Settings are missing: all of them are named.
    #[error(transparent)]
    Missing(#[from] MissingSettings),
    /// Settings are not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidOptions),
}

impl PoisonQueueSettings {
    /// Checks the settings and opens the queue. Nothing is requested yet.
    ///
    /// # Errors
    ///
    /// [`PoisonSettingsError`] names every setting that is missing, or what is wrong with one.
    pub fn open(&self) -> Result<AzurePoisonQueue, PoisonSettingsError> {
        use secrecy::ExposeSecret;
        let connection = self.storage_connection.as_ref().map(|it| it.expose_secret());
        let connection = connection.map(str::trim).unwrap_or_default();
        let name = self.poison_queue_name.as_deref().map(str::trim).unwrap_or_default();
        MissingSettings::check(&[
            ("storage_connection", !connection.is_empty()),
            ("poison_queue_name", !name.is_empty()),
        ])?;
        let invalid = |it| InvalidOptions(vec![it]);
        let queue = QueueName::new(name).map_err(invalid)?;
        let dead = self.dead_letter_queue_name.clone().unwrap_or_else(|| format!("{name}-dead"));
        let dead = QueueName::new(dead).map_err(invalid)?;
        let mut options =
            Options::new(Account::from_connection_string(connection).map_err(invalid)?);
        options.poison_queues.insert(queue.clone(), dead);
        let opened = AzureTransport::open(options)?.poison_queue(&queue, self.fields.clone());
        opened.map_err(|refused| match refused.kind {
            ErrorKind::Invalid(it) => invalid(it).into(),
            _ => invalid(bezoar_core::Invalid::new("poison_queue_name", "cannot be used")).into(),
        })
    }
}

impl AzureTransport {
    /// The poison queue `queue` for the retry processor. Nothing is requested yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if Azure does not accept a name of a queue, or if the names of the fields cannot be
    /// used.
    pub fn poison_queue(
        &self,
        queue: &QueueName,
        fields: RetryFields,
    ) -> Result<AzurePoisonQueue, TransportError> {
        retry_text::check(&fields)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), OPERATION))?;
        Ok(AzurePoisonQueue(Arc::new(Access {
            queue: self.inner.queue(queue, OPERATION)?,
            dead: self.inner.poison_queue(queue, OPERATION)?,
            state: self.inner.clone(),
            fields,
        })))
    }
}

const OPERATION: &str = "poison_retry";

#[async_trait]
impl PoisonQueue for AzurePoisonQueue {
    fn name(&self) -> &QueueName {
        &self.0.queue.name
    }

    async fn create(&self) -> Result<(), TransportError> {
        for queue in [&self.0.queue, &self.0.dead] {
            self.0.create(queue).await?;
        }
        Ok(())
    }

    async fn take(
        &self,
        max: NonZeroU32,
        invisibility: Duration,
    ) -> Result<Vec<Box<dyn PoisonMessage>>, TransportError> {
        let Access { state, queue, .. } = &*self.0;
        let (bodies, clock) = (state.service.bodies.as_ref(), &*state.options.clock);
        let wanted = LeaseRequest {
            max: max.get(),
            lease: invisibility,
            max_bytes: BATCH_LIMIT_BYTES,
            at_once: state.options.limits.publish_concurrency,
        };
        let arrived = lease_with_bodies(queue, bodies, clock, wanted).await;
        let arrived = arrived.map_err(|fault| fault.repeatable(&queue.name, OPERATION))?;
        let mut messages: Vec<Box<dyn PoisonMessage>> = Vec::with_capacity(arrived.len());
        for it in arrived {
            match it.body {
                Some(Err(NoBody::NoRoom)) => self.0.hand_back(&it.fetched).await,
                _ => messages.push(Box::new(AzurePoisonMessage::new(self.0.clone(), it))),
            }
        }
        Ok(messages)
    }
}

impl Access {
    async fn create(&self, queue: &Queue) -> Result<(), TransportError> {
        let created = match self.state.options.create_if_missing {
            true => queue.create().await,
            false => queue.count().await.map(drop),
        };
        created.map_err(|fault| fault.repeatable(&queue.name, OPERATION))
    }

    /// Makes a message visible at once, because there is no room for its body now.
    async fn hand_back(&self, fetched: &Fetched) {
        let _ = self.queue.update(&fetched.id, &fetched.pop_receipt, None, Duration::ZERO).await;
    }

    fn error(&self, fault: Fault) -> TransportError {
        fault.repeatable(&self.queue.name, OPERATION)
    }
}

/// A message that was taken from a poison queue.
struct AzurePoisonMessage {
    access: Arc<Access>,
    id: MessageId,
    /// With the latest pop receipt.
    fetched: Fetched,
    text: RetryText,
    content: Content,
    /// A deletion was sent and not answered: if the message is gone, it was that.
    delete_sent: bool,
    /// The dead-letter record is stored.
    is_set_aside: bool,
}

enum Content {
    Message(Arc<bezoar_core::Message>),
    Unusable(Reason),
    Unavailable(TransportError),
}

impl AzurePoisonMessage {
    fn new(access: Arc<Access>, arrived: Arrived) -> Self {
        let Arrived { fetched, body, .. } = arrived;
        let mut text =
            retry_text::read(&fetched, access.state.options.foreign_text, &access.fields);
        let id = text.message.as_ref().map(|it| it.id.clone());
        let id = id.or_else(|| MessageId::new(&fetched.id).ok());
        let content = match (text.message.take(), body) {
            (None, _) => Content::Unusable(Reason::undecodable()),
            (Some(message), None) => Content::Message(Arc::new(message)),
            (Some(message), Some(Ok(body))) => Content::Message(Arc::new(message.with_body(body))),
            (Some(_), Some(Err(NoBody::Gone(reason)))) => Content::Unusable(reason),
            (Some(_), Some(Err(NoBody::Unavailable(fault)))) => {
                Content::Unavailable(access.error(fault))
            }
            (Some(_), Some(Err(NoBody::NoRoom))) => {
                Content::Unavailable(error(ErrorKind::Unavailable, OPERATION))
            }
        };
        let id = id.expect("Azure's ids are short and printable");
        Self { access, id, fetched, text, content, delete_sent: false, is_set_aside: false }
    }

    /// The ledger with the delivery that failed just now.
    fn ledger(&self, failed: Option<&FailedTry>) -> Ledger {
        let Content::Message(message) = &self.content else { return Ledger::default() };
        let mut ledger = message.ledger.clone();
        ledger.acquire();
        ledger.fail(failed.into_iter().cloned().collect());
        ledger
    }

    /// The dead-letter record. One that was wrapped in a record is not wrapped twice; one that cannot be decoded keeps
    /// every byte.
    fn record(&self, reason: &Reason, at: Timestamp, failed: Option<&FailedTry>) -> String {
        let fetched = match &self.text.original {
            Some((id, text)) => {
                Fetched { id: id.clone(), text: text.clone(), ..self.fetched.clone() }
            }
            None => self.fetched.clone(),
        };
        let original_text = match &self.content {
            Content::Message(_) => stored_text::original(&fetched.text),
            _ => fetched.text.clone(),
        };
        let retried = Some((self.text.correlation_id.clone(), self.text.retry_count));
        let poisoned = Poisoned {
            fetched: &fetched,
            died_in: (&self.access.queue.name, &self.fetched.id),
            original_text,
            retried,
            ledger: self.ledger(failed),
            reason,
            at,
        };
        poisoned.write(self.access.state.options.error_texts)
    }

    /// Stores a text in the queue for dead letters, for ever.
    async fn put(&self, text: &str) -> Result<(), TransportError> {
        let dead = &self.access.dead;
        let put = || dead.put(text, Duration::ZERO, None);
        let stored = match put().await {
            Err(Fault { kind: FaultKind::QueueNotFound, .. }) => {
                self.access.create(dead).await?;
                put().await
            }
            stored => stored,
        };
        stored.map_err(|fault| fault.repeatable(&dead.name, OPERATION))
    }
}

#[async_trait]
impl PoisonMessage for AzurePoisonMessage {
    fn id(&self) -> &MessageId {
        &self.id
    }

    fn correlation_id(&self) -> Option<&CorrelationId> {
        self.text.correlation_id.as_ref()
    }

    fn retry_count(&self) -> u32 {
        self.text.retry_count
    }

    fn content(&self) -> PoisonContent {
        match &self.content {
            Content::Message(message) => PoisonContent::Message(message.clone()),
            Content::Unusable(reason) => PoisonContent::Unusable(reason.clone()),
            Content::Unavailable(error) => PoisonContent::Unavailable(error.again()),
        }
    }

    /// If the count does not fit, only the visibility changes: Azure's own count then limits the retries.
    async fn retry(
        &mut self,
        retry_count: u32,
        after: Duration,
        failed: &FailedTry,
    ) -> Result<(), TransportError> {
        let Access { state, queue, fields, .. } = &*self.access;
        let mut ledger = self.ledger(Some(failed));
        // Azure counts the deliveries of this message itself.
        ledger.acquired = ledger.acquired.saturating_sub(self.fetched.dequeue_count);
        let text = &self.fetched.text;
        let foreign = state.options.foreign_text;
        let text = retry_text::rewritten(text, foreign, fields, retry_count, Some(&ledger));
        let (id, receipt) = (&self.fetched.id, &self.fetched.pop_receipt);
        let after = within_limit(whole_seconds(after));
        let updated = queue.update(id, receipt, text.as_deref(), after).await;
        self.fetched.pop_receipt = updated.map_err(|it| it.into_error(&queue.name, OPERATION))?;
        Ok(())
    }

    async fn store_dead_letter(
        &mut self,
        reason: &Reason,
        at: Timestamp,
        failed: Option<&FailedTry>,
    ) -> Result<(), TransportError> {
        if self.is_set_aside {
            return Ok(());
        }
        if let Some(bodies) = &self.access.state.service.bodies {
            let kept = bodies.keep(&self.fetched.text, &self.access.dead.name).await;
            kept.map_err(|fault| self.access.error(fault))?;
        }
        self.put(&self.record(reason, at, failed)).await?;
        self.is_set_aside = true;
        Ok(())
    }

    async fn delete(&mut self, end: PoisonEnd) -> Result<(), TransportError> {
        let deleted = self.access.queue.delete(&self.fetched.id, &self.fetched.pop_receipt).await;
        match deleted {
            Ok(()) => (),
            Err(Fault { kind: FaultKind::MessageNotFound, .. }) if self.delete_sent => (),
            Err(fault) => {
                self.delete_sent |= fault.kind == FaultKind::NoAnswer;
                return Err(self.access.error(fault));
            }
        }
        let reference = blob_reference::find(&self.fetched.text);
        if let (PoisonEnd::Delivered, Some(bodies), Some(reference)) =
            (end, &self.access.state.service.bodies, reference)
        {
            bodies.forget(&reference).await;
        }
        Ok(())
    }
}

/// Whole seconds, rounded down from the first one on: jitter must not lengthen a delay beyond its bound.
fn whole_seconds(after: Duration) -> Duration {
    if after < Duration::from_secs(1) { after } else { Duration::from_secs(after.as_secs()) }
}

impl fmt::Debug for AzurePoisonMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzurePoisonMessage").field("id", &self.id).finish_non_exhaustive()
    }
}
