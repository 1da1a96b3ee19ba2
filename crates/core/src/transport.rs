//! The contract that every transport keeps, as far as messages go. What operators need is in `admin`.

use std::{fmt::Debug, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Capabilities, FailedTry, Invalid, Ledger, MAX_DELAY, Message, QueueName, Reason, Receipt,
    TransportError, UncountedFailure,
};

/// Where queues live.
#[async_trait]
pub trait Transport: Debug + Send + Sync + 'static {
    /// What it can do. Differences between transports are here, never surprises.
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
    /// [`Capabilities::server_wait`] says it does. An empty result is no error.
    /// Once the bodies of a result exceed [`SubscribeOptions::max_bytes`] it takes no further message.
    /// Dropping the future loses nothing.
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError>;

    /// Says what becomes of deliveries; one result each, in order.
    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>>;

    /// Renews the leases of several deliveries: each is held for `lease` from now. One result each, in order.
    ///
    /// It takes the deliveries mutably, so that renewing and settling cannot race and a changed receipt is
    /// kept. If the answer is lost, or the future is dropped, the leases were renewed or they were not: the
    /// deliveries can be settled and renewed again either way, for as long as nobody else was given the
    /// message.
    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>>;

    /// Gives back what was fetched and not handed out.
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
    /// It is not delivered before this has passed.
    pub delay: Duration,
    /// If its id was accepted by the same queue within this time, it is taken for the same message: `Ok`,
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
    /// For how long a delivery is held unless it is extended, where leases expire.
    pub lease: Duration,
    /// How many messages a transport that pushes may send ahead.
    pub prefetch: NonZeroU32,
    /// With how many bytes of bodies one receive ends; its first message may be of any size.
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
/// It is not `Clone`: one owner extends and settles it.
#[derive(Debug)]
pub struct Delivery {
    /// The message, its present acquisition counted. Shared with whoever handles it.
    pub message: Arc<Message>,
    /// What the transport knows the lease by.
    pub receipt: Receipt,
    /// When the lease runs out by the transport's clock, where leases do. It informs; only the receipt decides.
    pub lease_until: Option<Timestamp>,
    /// Whether somebody may have worked on this message before without leaving a trace; see
    /// [`Ledger::may_have_run`](crate::Ledger::may_have_run).
    pub redelivered: bool,
}

/// What becomes of a delivery. A transport hands a message back at once for a settlement that it does not
/// know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// Done: the message is gone.
    Complete,
    /// An attempt failed; the message returns after a delay.
    Retry {
        /// Not before this has passed.
        after: Duration,
        /// The failed runs of the handler, in order.
        tries: Vec<FailedTry>,
    },
    /// The message is set aside.
    DeadLetter {
        /// Why.
        reason: Reason,
        /// The failed runs of the handler, in order; empty if no handler ran.
        tries: Vec<FailedTry>,
    },
    /// The message is handed back without an attempt: shutdown, an open breaker, trouble with a transport.
    Release {
        /// Not before this has passed.
        after: Duration,
    },
    /// The handler ran and failed through no fault of the message: it uses up no retry, and the ledger
    /// remembers it in a summary.
    Uncounted {
        /// Not before this has passed.
        after: Duration,
        /// What happened.
        failure: UncountedFailure,
    },
}

impl Settlement {
    /// Records in a message's ledger what this settlement says happened.
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
