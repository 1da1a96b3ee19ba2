//! The contract that every transport keeps: send, receive, settle. The part for operators is in `admin`.

use std::{fmt::Debug, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Capabilities, FailedTry, Invalid, Ledger, MAX_DELAY, Message, QueueName, Reason, Receipt,
    TransportError, UncountedFailure,
};

/// A store or broker that holds queues.
#[async_trait]
pub trait Transport: Debug + Send + Sync + 'static {
    /// What this transport can do.
    fn capabilities(&self) -> Capabilities;

    /// Sends a batch. One result per message, in order; `Ok` means durable and routed, and says whether the message was
    /// accepted before.
    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>>;

    /// Opens a queue for receiving.
    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError>;
}

/// An open queue.
#[async_trait]
pub trait Subscription: Debug + Send + Sync {
    /// Leases up to `max` messages, waiting at most `wait` for the first. The server itself waits for
    /// up to [`Capabilities::server_wait`]. An empty result is not an error. Takes no further message
    /// once the bodies of a result exceed [`SubscribeOptions::max_bytes`]. Dropping the future loses
    /// nothing.
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError>;

    /// Settles deliveries. One result each, in order.
    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>>;

    /// Renews the leases of several deliveries: each then lasts for `lease` from now. One result each, in
    /// order.
    ///
    /// It takes the deliveries mutably, so that renewing and settling cannot race and a changed receipt is kept.
    /// If the response is lost or the future is dropped, the leases may or may not have been renewed. Either way
    /// the deliveries can be settled and renewed until another consumer leases the message.
    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>>;

    /// Closes the queue and releases messages that were fetched but not delivered yet.
    async fn close(self: Box<Self>) -> Result<(), TransportError>;
}

/// How a message was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Acceptance {
    /// It is stored now.
    #[default]
    New,
    /// The same message was accepted before, see [`Outgoing::once`]; nothing was stored. Only reported where
    /// [`Capabilities::deduplication`] says that ids are compared.
    Repeated,
}

/// Where a message is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Destination {
    /// A queue.
    Queue(QueueName),
    /// An exchange or topic that routes by a key.
    Topic {
        /// Its name.
        name: QueueName,
        /// The key to route by.
        key: String,
    },
}

impl From<QueueName> for Destination {
    fn from(queue: QueueName) -> Self {
        Self::Queue(queue)
    }
}

impl From<&QueueName> for Destination {
    fn from(queue: &QueueName) -> Self {
        Self::Queue(queue.clone())
    }
}

/// A message on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outgoing {
    /// The message. Its ledger is stored with it.
    pub message: Message,
    /// The minimum time before the message is delivered.
    pub delay: Duration,
    /// If the same queue accepted this id within this time, the message counts as the same one: the
    /// result is [`Acceptance::Repeated`], and it is not stored again. Only supported where
    /// [`Capabilities::deduplication`] says so.
    pub once: Option<Duration>,
}

impl Outgoing {
    /// Sets the delay: the message is not delivered before it has passed.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Accepts the message only once within `window`.
    pub fn once(mut self, window: Duration) -> Self {
        self.once = Some(window);
        self
    }

    /// Checks that headers and delay stay within the limits that apply to every transport.
    /// [`Capabilities::check`] adds the limits of one transport.
    ///
    /// # Errors
    ///
    /// [`Invalid`] as from [`Message::check_headers`], or for a delay above [`MAX_DELAY`].
    pub fn check(&self) -> Result<(), Invalid> {
        if self.delay > MAX_DELAY {
            let (asked, most) = (self.delay.as_secs(), MAX_DELAY.as_secs());
            return Err(Invalid::new(
                "delay",
                format!("is {asked} s, at most {most} s are accepted"),
            ));
        }
        self.message.check_headers()
    }
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self { message, delay: Duration::ZERO, once: None }
    }
}

/// How a queue is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscribeOptions {
    /// How long a delivery is leased unless its lease is renewed, where leases expire.
    pub lease: Duration,
    /// How many messages a transport that pushes may send before they are requested.
    pub prefetch: NonZeroU32,
    /// A `receive` takes no further message once the bodies reach this many bytes; the first message may be
    /// of any size.
    pub max_bytes: usize,
}

impl Default for SubscribeOptions {
    /// A lease of 30 s, a prefetch of 16 messages, and 64 MiB in one `receive`.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            prefetch: NonZeroU32::new(16).expect("16 is not 0"),
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

impl SubscribeOptions {
    /// Sets the length of a lease.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how many messages may be sent before they are requested.
    pub fn with_prefetch(mut self, prefetch: NonZeroU32) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// Sets the maximum bytes of bodies in one `receive`.
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// A message leased to one worker.
///
/// It is not `Clone`, because a single owner renews and settles it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// The message. Its ledger includes this delivery. Shared with the handler.
    pub message: Arc<Message>,
    /// Identifies the lease to the transport.
    pub receipt: Receipt,
    /// When the lease expires by the transport's clock, where leases expire. For information only: the receipt decides.
    pub lease_until: Option<Timestamp>,
    /// Whether a handler may have run on this message before without leaving an outcome; see
    /// [`Ledger::may_have_run`](crate::Ledger::may_have_run).
    pub redelivered: bool,
}

impl Delivery {
    /// Creates a delivery: counts the acquisition and records whether a handler may have run on the
    /// message before.
    pub fn new(mut message: Message, receipt: Receipt, lease_until: Option<Timestamp>) -> Self {
        let redelivered = message.ledger.may_have_run();
        message.ledger.acquire();
        Self { message: Arc::new(message), receipt, lease_until, redelivered }
    }

    /// A copy for an owner that may have to settle again because the response was lost.
    pub fn copy(&self) -> Self {
        Self {
            message: self.message.clone(),
            receipt: self.receipt.clone(),
            lease_until: self.lease_until,
            redelivered: self.redelivered,
        }
    }
}

/// How a delivery is settled. A transport that does not know a settlement releases the message immediately. If the
/// delay exceeds the transport's [longest](Capabilities::scheduled), it delays the message by its longest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is completed and removed.
    Complete,
    /// An attempt failed; the message returns after a delay.
    Retry {
        /// The minimum time before the next delivery.
        after: Duration,
        /// The failed runs of the handler, in order.
        tries: Vec<FailedTry>,
    },
    /// The message becomes a dead letter.
    DeadLetter {
        /// Why the message is dead-lettered.
        reason: Reason,
        /// The failed runs of the handler, in order; empty if no handler ran.
        tries: Vec<FailedTry>,
    },
    /// The message is released without an attempt, because of a shutdown, an open breaker or a transport
    /// error.
    Release {
        /// The minimum time before the next delivery.
        after: Duration,
    },
    /// The handler ran and failed through no fault of the message: it uses up no retry, and the ledger
    /// keeps a summary of it.
    Uncounted {
        /// The minimum time before the next delivery.
        after: Duration,
        /// The failure that the ledger records.
        failure: UncountedFailure,
    },
}

impl Settlement {
    /// Shortens the delay to `longest`, the longest that the transport supports.
    pub fn within(mut self, longest: Duration) -> Self {
        if let Self::Retry { after, .. } | Self::Release { after } | Self::Uncounted { after, .. } =
            &mut self
        {
            *after = (*after).min(longest);
        }
        self
    }

    /// Records this settlement in a message's ledger.
    pub fn record(&self, ledger: &mut Ledger) {
        match self {
            Self::Complete => (),
            Self::Retry { tries, .. } | Self::DeadLetter { tries, .. } => {
                ledger.fail(tries.clone());
            }
            Self::Release { .. } => ledger.release(),
            Self::Uncounted { failure, .. } => ledger.fail_uncounted(failure),
        }
    }
}
