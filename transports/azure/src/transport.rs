//! Sending, and opening queues.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Counting, Destination, ErrorKind, Invalid, Leases, Message, Outgoing,
    QueueName, SettlementDurability, SubscribeOptions, Subscription, Transport, TransportError,
};
use tokio::{sync::watch, time::timeout};

use crate::{
    InvalidOptions, LONGEST_DELAY, Options,
    connection::{queue_client::Queue, queue_name, service::Service},
    consuming::subscription::AzureSubscription,
    error::{Fault, FaultKind, TRANSPORT, error},
    in_parallel::in_parallel,
    wire::{LIMIT_BYTES, blob_reference::BlobReference, envelope, poison_record, stored_text},
};

/// How long a feed waits for the letters of an earlier one.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);
/// How long it may take until a request that returned shows in the counts.
const LAG: Duration = Duration::from_millis(100);
const CLAIM_CHECK: &str = "turn on the claim check (`claim_check`), which stores large bodies in Blob Storage, or raise its `max_bytes`";
const FOREIGN: &str = "the letter goes back as another program wrote it, which cannot use the claim check; shorten its body";

/// Queues on Azure Storage Queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AzureTransport {
    pub(crate) inner: Arc<TransportState>,
}

#[derive(Debug)]
pub(crate) struct TransportState {
    pub(crate) options: Options,
    pub(crate) service: Service,
    /// How many dropped feeds are still giving back their letters.
    releasing: watch::Sender<u32>,
}

impl AzureTransport {
    /// Checks the options. The first request connects.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`] names every option that is out of its range.
    pub fn open(options: Options) -> Result<Self, InvalidOptions> {
        options.check()?;
        let service = Service::new(&options).map_err(|invalid| InvalidOptions(vec![invalid]))?;
        let releasing = watch::Sender::new(0);
        Ok(Self { inner: Arc::new(TransportState { options, service, releasing }) })
    }

    async fn send_one(
        &self,
        queue: &Queue,
        outgoing: &Outgoing,
        checked: Result<Acceptance, TransportError>,
    ) -> Result<Acceptance, TransportError> {
        let checked = checked.map_err(with_remedy)?;
        let text = envelope::write(&outgoing.message);
        self.inner.put(queue, text, outgoing, "send").await.map(|()| checked)
    }
}

fn too_large(message: &Message, actual_bytes: usize, operation: &'static str) -> TransportError {
    let (id, limit_bytes) = (message.id.clone(), LIMIT_BYTES);
    error(ErrorKind::TooLarge { id, actual_bytes, limit_bytes }, operation)
}

fn with_remedy(refused: TransportError) -> TransportError {
    match refused.kind {
        ErrorKind::TooLarge { .. } => refused.with_source(CLAIM_CHECK),
        _ => refused,
    }
}

/// The text of another program's message that fits only without an envelope, and so without its history.
fn without_envelope(message: &Message, size: usize) -> Result<String, usize> {
    let text = poison_record::as_text(message);
    let fits = message.message_type.as_str() == stored_text::UNTYPED && text.len() <= LIMIT_BYTES;
    if fits { Ok(text) } else { Err(size) }
}

impl TransportState {
    /// The queue of this name, if Azure accepts the name.
    pub(crate) fn queue(
        &self,
        name: &QueueName,
        operation: &'static str,
    ) -> Result<Queue, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), operation);
        queue_name::check(name).map_err(invalid)?;
        Ok(self.service.queue(name))
    }

    /// The queue that dead letters of `queue` go to.
    pub(crate) fn poison_queue(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<Queue, TransportError> {
        if let Some(name) = self.options.poison_queues.get(queue) {
            return self.queue(name, operation);
        }
        let name = QueueName::new(format!("{queue}-poison"));
        let name = name.and_then(|name| queue_name::check(&name).map(|()| name));
        let name = name.map_err(|_| {
            let problem =
                format!("{queue:?} leaves no room for \"-poison\": use at most 56 characters");
            error(ErrorKind::Invalid(Invalid::new("queue name", problem)), operation)
        })?;
        Ok(self.service.queue(&name))
    }

    /// Makes sure that `queue` and its poison queue exist; returns the latter.
    pub(crate) async fn ensure_poison_queue(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<Queue, TransportError> {
        let main = self.queue(queue, operation)?;
        let poison = self.poison_queue(queue, operation)?;
        let (main, found) = tokio::join!(main.count(), poison.count());
        main.map_err(|fault| fault.repeatable(queue, operation))?;
        match found {
            Ok(_) => Ok(poison),
            Err(fault) if fault.kind != FaultKind::QueueNotFound => {
                Err(fault.repeatable(&poison.name, operation))
            }
            Err(_) if !self.options.create_if_missing => {
                let missing = format!("its poison queue {:?} is missing; create it", poison.name);
                Err(error(ErrorKind::Unusable, operation).with_source(missing))
            }
            Err(_) => {
                let created = poison.create().await;
                created.map_err(|fault| fault.repeatable(&poison.name, operation))?;
                Ok(poison)
            }
        }
    }

    /// Sends a dead letter back: in our envelope, or as it came if another program set it aside.
    pub(crate) async fn replay(
        &self,
        queue: &QueueName,
        message: &Message,
    ) -> Result<(), TransportError> {
        let to = self.queue(queue, "replay")?;
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "replay");
        let message = poison_record::with_body(message).map_err(invalid)?;
        let text = match poison_record::as_it_came(&message) {
            Some(text) if text.len() > LIMIT_BYTES => {
                return Err(too_large(&message, text.len(), "replay").with_source(FOREIGN));
            }
            Some(text) => {
                self.keep_body(queue, &text).await?;
                Ok(text)
            }
            None => envelope::write(&message).or_else(|size| without_envelope(&message, size)),
        };
        self.put(&to, text, &message.into(), "replay").await
    }

    /// Marks the body of an envelope that only a newer program can read, so that it is no orphan while it waits.
    async fn keep_body(&self, queue: &QueueName, text: &str) -> Result<(), TransportError> {
        let poison = self.poison_queue(queue, "replay")?;
        match &self.service.bodies {
            Some(bodies) => {
                let kept = bodies.keep(text, &poison.name).await;
                kept.map_err(|fault| fault.repeatable(queue, "replay"))
            }
            None => Ok(()),
        }
    }

    /// Stores a message with this text. If it does not fit, the body goes to Blob Storage, where that is allowed.
    async fn put(
        &self,
        queue: &Queue,
        text: Result<String, usize>,
        outgoing: &Outgoing,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let (text, blob) = match text {
            Ok(text) => (text, None),
            Err(size) => self.put_body(queue, &outgoing.message, size, operation).await?,
        };
        let stored = queue.put(&text, outgoing.delay, self.options.time_to_live).await;
        let is_refused = stored.as_ref().is_err_and(Fault::changed_nothing);
        if let (true, Some(bodies), Some(blob)) = (is_refused, &self.service.bodies, blob) {
            bodies.forget(&blob).await;
        }
        stored.map_err(|fault| fault.into_error(&queue.name, operation))
    }

    /// Stores the body of a message whose text has `size` bytes; returns a text that refers to the body.
    async fn put_body(
        &self,
        queue: &Queue,
        message: &Message,
        size: usize,
        operation: &'static str,
    ) -> Result<(String, Option<BlobReference>), TransportError> {
        let refused = |size| with_remedy(too_large(message, size, operation));
        let is_on = self.options.claim_check.is_some();
        let bodies = self.service.bodies.as_ref().filter(|_| is_on).ok_or_else(|| refused(size))?;
        let body = message.body.reveal();
        let blob = bodies.refer_to(body);
        let text = envelope::write_reference(message, &blob).map_err(refused)?;
        let stored = bodies.store(&blob, body).await;
        stored.map_err(|fault| fault.repeatable(&queue.name, operation))?;
        Ok((text, Some(blob)))
    }

    /// Counts a feed that is giving back its letters, until the guard is dropped.
    pub(crate) fn releasing(self: &Arc<Self>) -> Releasing {
        self.releasing.send_modify(|count| *count += 1);
        Releasing(self.clone())
    }

    /// Waits until earlier feeds of this process have given back their letters.
    pub(crate) async fn released(&self) {
        let mut releasing = self.releasing.subscribe();
        let _ = timeout(RELEASED_WITHIN, releasing.wait_for(|count| *count == 0)).await;
    }
}

/// A feed that is giving back its letters.
#[derive(Debug)]
pub(crate) struct Releasing(Arc<TransportState>);

impl Drop for Releasing {
    fn drop(&mut self) {
        self.0.releasing.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl Transport for AzureTransport {
    fn capabilities(&self) -> Capabilities {
        let claim_check = self.inner.options.claim_check.as_ref();
        let largest = claim_check.map_or(0, |it| it.max_bytes).max(envelope::LARGEST_BODY_BYTES);
        let mut can = Capabilities::new(TRANSPORT, largest);
        can.max_encoded_bytes = Some(LIMIT_BYTES);
        // Azure refuses a delay that outlasts the message.
        let life = self.inner.options.time_to_live.unwrap_or(Duration::MAX);
        can.scheduled = Some(LONGEST_DELAY.min(life.saturating_sub(Duration::from_secs(1))));
        can.time_to_live = true;
        can.batching = true;
        can.durable = true;
        can.leases = Leases::Expire;
        can.shortest_lease = Duration::from_secs(1);
        can.longest_lease = LONGEST_DELAY;
        can.settlement = SettlementDurability::Durable;
        can.acquired = Counting::AtLeast;
        can.lag = LAG;
        can.dead_letter_feed = true;
        can
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let (name, checked) = match self.capabilities().check_batch(to, batch) {
            Ok(checked) => checked,
            Err(refused) => return refused,
        };
        let queue = match self.inner.queue(name, "send") {
            Ok(queue) => queue,
            Err(refused) => return batch.iter().map(|_| Err(refused.again())).collect(),
        };
        let sends = batch.iter().zip(checked);
        let sends = sends.map(|(outgoing, checked)| self.send_one(&queue, outgoing, checked));
        in_parallel(sends.collect(), self.inner.options.limits.publish_concurrency).await
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), "subscribe");
        self.capabilities().check_lease(options.lease).map_err(invalid)?;
        let poison = Arc::new(self.inner.ensure_poison_queue(queue, "subscribe").await?);
        let queue = Arc::new(self.inner.queue(queue, "subscribe")?);
        Ok(Box::new(AzureSubscription::new(self.inner.clone(), queue, poison, options)))
    }
}
