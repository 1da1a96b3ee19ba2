//! The contract that every transport keeps: sending, receiving, settling. The operators' part is in `admin`.

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

    /// Sends a batch. One result per message, in order; `Ok` means durable and routed.
    async fn send(&self, to: &Destination, batch: &[Outgoing]) -> Vec<Result<(), TransportError>>;

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
    /// Leases up to `max` messages, waiting at most `wait` for the first: at the server, for as long as
    /// [`Capabilities::server_wait`] says it does. An empty result is not an error.
    /// Takes no further message once the bodies of a result exceed [`SubscribeOptions::max_bytes`].
    /// Dropping the future loses nothing.
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError>;

    /// Settles deliveries; one result each, in order.
    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>>;

    /// Renews the leases of several deliveries: each is held for `lease` from now. One result each, in order.
    ///
    /// It takes the deliveries mutably, so that renewing and settling cannot race and a changed receipt is
    /// kept. If the answer is lost, or the future is dropped, the leases may or may not have been renewed: either
    /// way the deliveries can be settled and renewed again, until another consumer is given the message.
    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>>;

    /// Closes the queue; hands back messages that were fetched and not delivered yet.
    async fn close(self: Box<Self>) -> Result<(), TransportError>;
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
    /// The message is not delivered before this time has passed.
    pub delay: Duration,
    /// If the same queue accepted this id within this time, this counts as the same message: `Ok`,
    /// and not stored again. Only where [`Capabilities::deduplication`] says so.
    pub once: Option<Duration>,
}

impl Outgoing {
    /// The same message, not delivered before `delay` has passed.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same message, accepted once within `window`.
    pub fn once(mut self, window: Duration) -> Self {
        self.once = Some(window);
        self
    }

    /// Whether headers and delay stay within what every transport handles.
    /// [`Capabilities::check`] adds the limits of one.
    ///
    /// # Errors
    ///
    /// [`Invalid`] as of [`Message::check_headers`], or for a delay above [`MAX_DELAY`].
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
    /// How long a delivery is held unless its lease is renewed, where leases expire.
    pub lease: Duration,
    /// How many messages a transport that pushes may send ahead.
    pub prefetch: NonZeroU32,
    /// One receive takes no further message beyond this many bytes of bodies; the first may be of any size.
    pub max_bytes: usize,
}

impl Default for SubscribeOptions {
    /// 30 s, 16 messages ahead, and 64 MiB in one receive.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            prefetch: NonZeroU32::new(16).expect("16 is not 0"),
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

impl SubscribeOptions {
    /// The same, holding each delivery for `lease`.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same, with up to `prefetch` messages sent ahead.
    pub fn with_prefetch(mut self, prefetch: NonZeroU32) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// The same, ending a receive with `max_bytes` of bodies.
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// A message leased to one worker.
///
/// It is not `Clone`: a single owner renews and settles it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// The message, with its current delivery counted. Shared with its handler.
    pub message: Arc<Message>,
    /// Identifies the lease to the transport.
    pub receipt: Receipt,
    /// When the lease expires by the transport's clock, where leases expire. For information; only the receipt decides.
    pub lease_until: Option<Timestamp>,
    /// Whether a handler may have run on this message before without leaving an outcome; see
    /// [`Ledger::may_have_run`](crate::Ledger::may_have_run).
    pub redelivered: bool,
}

impl Delivery {
    /// Hands out a message: counts the acquisition, and notes whether a handler may have run on it before.
    pub fn new(mut message: Message, receipt: Receipt, lease_until: Option<Timestamp>) -> Self {
        let redelivered = message.ledger.may_have_run();
        message.ledger.acquire();
        Self { message: Arc::new(message), receipt, lease_until, redelivered }
    }

    /// The delivery once more, for an owner that may have to settle again because the answer was lost.
    pub fn copy(&self) -> Self {
        Self {
            message: self.message.clone(),
            receipt: self.receipt.clone(),
            lease_until: self.lease_until,
            redelivered: self.redelivered,
        }
    }
}

/// How a delivery is settled. A transport that does not know a settlement hands the message back at once. One that is
/// asked for a longer delay than its [longest](Capabilities::scheduled) keeps the message for as long as it can.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is done and removed.
    Complete,
    /// An attempt failed; the message returns after a delay.
    Retry {
        /// The least time before the next delivery.
        after: Duration,
        /// The failed runs of the handler, in order.
        tries: Vec<FailedTry>,
    },
    /// The message becomes a dead letter.
    DeadLetter {
        /// Why.
        reason: Reason,
        /// The failed runs of the handler, in order; empty if no handler ran.
        tries: Vec<FailedTry>,
    },
    /// The message is handed back without an attempt: a shutdown, an open breaker, an error of a transport.
    Release {
        /// The least time before the next delivery.
        after: Duration,
    },
    /// The handler ran and failed through no fault of the message: it uses up no retry, and the ledger
    /// keeps a summary of it.
    Uncounted {
        /// The least time before the next delivery.
        after: Duration,
        /// What happened.
        failure: UncountedFailure,
    },
}

impl Settlement {
    /// The same, with a delay that a transport can keep.
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
