//! What a transport can do. Transports declare here how they differ, so that nobody finds out at
//! run time.

use std::{fmt, time::Duration};

#[cfg(doc)]
use crate::Code;
use crate::{Acceptance, Destination, ErrorKind, Invalid, Outgoing, QueueName, TransportError};

type Results = Vec<Result<Acceptance, TransportError>>;

/// What a transport can do.
///
/// A transport starts with [`Capabilities::new`], which promises nothing, and sets the fields for what
/// it offers. Every field is a promise that conformance cases check, or decides which cases are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The transport's name, as errors show it.
    pub transport: &'static str,
    /// Messages can be sent to a topic or exchange.
    pub topics: bool,
    /// A topic can have several subscriptions.
    pub subscriptions: bool,
    /// Messages can be grouped into sessions.
    pub sessions: bool,
    /// Without failures, messages that were sent one after the other are delivered in that order.
    pub ordering: bool,
    /// Messages of one [ordering key](crate::Message::ordering_key) are delivered one at a time, in the
    /// order of sending. Where this is `false`, a message with a key is refused.
    pub ordering_keys: bool,
    /// The longest delay of a message or a retry; `None` if there are no delays. A longer delay is refused: by `send`,
    /// when a worker starts, and as a failed attempt when a handler [snoozes](Code::SNOOZE_LIMIT) a message. A worker
    /// never asks for a longer delay when it settles.
    pub scheduled: Option<Duration>,
    /// Messages can carry a time at which they [expire](crate::Message::expires_at). Where this is `false`,
    /// a message with such a time is refused.
    pub time_to_live: bool,
    /// One call to the server can carry several messages.
    pub batching: bool,
    /// Messages can be sent in the caller's own database transaction.
    pub transactions: bool,
    /// The server itself moves messages to a dead-letter queue.
    pub native_dead_letters: bool,
    /// Messages can overtake others by priority.
    pub priority: bool,
    /// The largest accepted body, in bytes before encoding: what the transport's encoding adds is already
    /// subtracted.
    pub max_message_bytes: usize,
    /// The maximum size of body, headers and ledger together once encoded; `None` where only the body is
    /// limited. A transport with this limit drops history and details of a ledger to fit, see
    /// [`Ledger::fit`](crate::Ledger::fit).
    pub max_encoded_bytes: Option<usize>,
    /// Messages survive the end of the process.
    pub durable: bool,
    /// How leases end.
    pub leases: Leases,
    /// The shortest lease that can be requested, where leases expire.
    pub shortest_lease: Duration,
    /// The longest lease that can be requested, where leases expire.
    pub longest_lease: Duration,
    /// A stale receipt never changes anything.
    pub fencing: bool,
    /// What `Ok` of a settlement means.
    pub settlement: SettlementDurability,
    /// What the ledger's count of acquisitions means.
    pub acquired: Counting,
    /// A message is never seen in two places at once, not even after a crash.
    pub single_copy: bool,
    /// A message id can be accepted only once within a window, see [`Outgoing::once`]. Where this is `false`,
    /// a message that sets `once` is refused.
    pub deduplication: bool,
    /// A waiting `receive` returns as soon as a message is sent through the same transport.
    pub wakes: bool,
    /// The longest that one `receive` waits at the server for a message; `None` if the server does not wait,
    /// and a queue that stays empty must be polled.
    pub server_wait: Option<Duration>,
    /// How long it may take until `receive` and `depth` reflect calls that already returned.
    pub lag: Duration,
    /// Every count of a [`Depth`](crate::Depth) is known.
    pub knows_depth: bool,
    /// The ages in a [`Depth`](crate::Depth) are known.
    pub knows_ages: bool,
    /// Dead letters can be listed, replayed and discarded one by one, see
    /// [`QueueAdmin::dead_letter_access`](crate::QueueAdmin::dead_letter_access).
    pub dead_letter_access: bool,
    /// Messages in queues can be looked at without taking them, see
    /// [`QueueAdmin::message_access`](crate::QueueAdmin::message_access).
    pub message_access: bool,
    /// Dead letters can be taken in order, see
    /// [`QueueAdmin::dead_letter_feed`](crate::QueueAdmin::dead_letter_feed).
    pub dead_letter_feed: bool,
}

impl Capabilities {
    /// A transport that promises nothing beyond the contract itself. Its leases expire and may last from
    /// nothing to a week.
    pub const fn new(transport: &'static str, max_message_bytes: usize) -> Self {
        Self {
            transport,
            topics: false,
            subscriptions: false,
            sessions: false,
            ordering: false,
            ordering_keys: false,
            scheduled: None,
            time_to_live: false,
            batching: false,
            transactions: false,
            native_dead_letters: false,
            priority: false,
            max_message_bytes,
            max_encoded_bytes: None,
            durable: false,
            leases: Leases::Expire,
            shortest_lease: Duration::ZERO,
            longest_lease: Duration::from_secs(7 * 24 * 60 * 60),
            fencing: false,
            settlement: SettlementDurability::Submitted,
            acquired: Counting::Unknown,
            single_copy: false,
            deduplication: false,
            wakes: false,
            server_wait: None,
            lag: Duration::ZERO,
            knows_depth: false,
            knows_ages: false,
            dead_letter_access: false,
            message_access: false,
            dead_letter_feed: false,
        }
    }

    /// Checks that this transport supports everything the message asks for. Every transport calls this
    /// first in `send`.
    ///
    /// # Errors
    ///
    /// `TooLarge` for a body above the limit; `Invalid` for headers or a delay above their limits;
    /// `Unsupported` for a delay, an expiry, an ordering key or `once` where the transport does not support
    /// it.
    pub fn check(&self, outgoing: &Outgoing) -> Result<(), TransportError> {
        self.refusal(outgoing)
            .map_or(Ok(()), |kind| Err(TransportError::new(kind, self.transport, "send")))
    }

    /// Returns the queue that a batch goes to and the result of [`check`](Self::check) for each message. A
    /// transport without topics calls this first in `send`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for every message, if the batch goes to a topic.
    pub fn check_batch<'a>(
        &self,
        to: &'a Destination,
        batch: &[Outgoing],
    ) -> Result<(&'a QueueName, Results), Results> {
        let unsupported =
            || TransportError::new(ErrorKind::Unsupported("topics"), self.transport, "send");
        match to {
            Destination::Queue(queue) => Ok((
                queue,
                batch.iter().map(|it| self.check(it).map(|()| Acceptance::New)).collect(),
            )),
            Destination::Topic { .. } => Err(batch.iter().map(|_| Err(unsupported())).collect()),
        }
    }

    fn refusal(&self, outgoing: &Outgoing) -> Option<ErrorKind> {
        let message = &outgoing.message;
        let (actual_bytes, limit_bytes) = (message.body.len(), self.max_message_bytes);
        if actual_bytes > limit_bytes {
            return Some(ErrorKind::TooLarge { id: message.id.clone(), actual_bytes, limit_bytes });
        }
        if let Err(invalid) =
            outgoing.check().and_then(|()| self.check_delay("delay", outgoing.delay))
        {
            return Some(ErrorKind::Invalid(invalid));
        }
        let unsupported = [
            (outgoing.once.is_some() && !self.deduplication, "ids that are accepted once"),
            (message.expires_at.is_some() && !self.time_to_live, "messages that expire"),
            (message.ordering_key.is_some() && !self.ordering_keys, "ordering keys"),
        ];
        let (_, what) = unsupported.into_iter().find(|(refused, _)| *refused)?;
        Some(ErrorKind::Unsupported(what))
    }

    /// Checks that a message can be delayed by this long. `field` names the setting that asks for
    /// it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a delay longer than [`scheduled`](Self::scheduled).
    pub fn check_delay(&self, field: &'static str, delay: Duration) -> Result<(), Invalid> {
        let longest = self.scheduled.unwrap_or_default();
        if delay <= longest {
            return Ok(());
        }
        let (asked, longest) = (Length(delay), Length(longest));
        let problem =
            format!("is {asked}, {} delays messages by {longest} at most", self.transport);
        Err(Invalid::new(field, problem))
    }

    /// Checks that a message can be leased for this long.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a lease outside the transport's range, where leases expire.
    pub fn check_lease(&self, lease: Duration) -> Result<(), Invalid> {
        let range = self.shortest_lease..=self.longest_lease;
        if self.leases != Leases::Expire || range.contains(&lease) {
            return Ok(());
        }
        let (asked, from, to) =
            (Length(lease), Length(self.shortest_lease), Length(self.longest_lease));
        let problem = format!("is {asked}, {} leases messages for {from} to {to}", self.transport);
        Err(Invalid::new("lease", problem))
    }

    /// Every field by name with its value in words, for tables.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let time = |time: Duration| Length(time).to_string();
        let time_or_no = |it: Option<Duration>| it.map_or("no".to_owned(), time);
        vec![
            ("transport", self.transport.to_owned()),
            ("topics", yes_no(self.topics)),
            ("subscriptions", yes_no(self.subscriptions)),
            ("sessions", yes_no(self.sessions)),
            ("ordering", yes_no(self.ordering)),
            ("ordering_keys", yes_no(self.ordering_keys)),
            ("scheduled", time_or_no(self.scheduled)),
            ("time_to_live", yes_no(self.time_to_live)),
            ("batching", yes_no(self.batching)),
            ("transactions", yes_no(self.transactions)),
            ("native_dead_letters", yes_no(self.native_dead_letters)),
            ("priority", yes_no(self.priority)),
            ("max_message_bytes", Bytes(self.max_message_bytes).to_string()),
            (
                "max_encoded_bytes",
                self.max_encoded_bytes.map_or("no limit".to_owned(), |it| Bytes(it).to_string()),
            ),
            ("durable", yes_no(self.durable)),
            ("leases", self.leases.to_string()),
            ("shortest_lease", time(self.shortest_lease)),
            ("longest_lease", time(self.longest_lease)),
            ("fencing", yes_no(self.fencing)),
            ("settlement", self.settlement.to_string()),
            ("acquired", self.acquired.to_string()),
            ("single_copy", yes_no(self.single_copy)),
            ("deduplication", yes_no(self.deduplication)),
            ("wakes", yes_no(self.wakes)),
            ("server_wait", time_or_no(self.server_wait)),
            ("lag", time(self.lag)),
            ("knows_depth", yes_no(self.knows_depth)),
            ("knows_ages", yes_no(self.knows_ages)),
            ("dead_letter_access", yes_no(self.dead_letter_access)),
            ("message_access", yes_no(self.message_access)),
            ("dead_letter_feed", yes_no(self.dead_letter_feed)),
        ]
    }
}

impl fmt::Display for Capabilities {
    /// One line for each field: its name, a colon, its value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().iter().try_for_each(|(name, value)| writeln!(f, "{name}: {value}"))
    }
}

/// How leases end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leases {
    /// A lease that is not renewed expires.
    Expire,
    /// A lease lasts as long as the connection.
    HeldByConnection,
}

impl fmt::Display for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expire => "expire",
            Self::HeldByConnection => "held by the connection",
        })
    }
}

/// What `Ok` of a settlement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettlementDurability {
    /// The settlement is stored.
    Durable,
    /// The settlement is sent. It may be lost with the connection; the message is then delivered
    /// again.
    Submitted,
}

impl fmt::Display for SettlementDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::Submitted => "submitted",
        })
    }
}

/// What a count means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counting {
    /// The count is stored before the handler runs.
    Exact,
    /// The count may be too high: it can include deliveries that reached no consumer.
    AtLeast,
    /// Nothing is counted.
    Unknown,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::AtLeast => "at least",
            Self::Unknown => "unknown",
        })
    }
}

/// A duration in the largest unit that divides it.
struct Length(Duration);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match seconds {
            0 if millis == 0 => f.write_str("0 s"),
            _ if millis > 0 => write!(f, "{} ms", self.0.as_millis()),
            _ if seconds.is_multiple_of(86_400) => write!(f, "{} days", seconds / 86_400),
            _ if seconds.is_multiple_of(3_600) => write!(f, "{} h", seconds / 3_600),
            _ => write!(f, "{seconds} s"),
        }
    }
}

/// A size in the largest unit that divides it.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, MessageId, MessageType, OrderingKey, millis};

    fn outgoing() -> Outgoing {
        let (id, kind) = (MessageId::new("m").unwrap(), MessageType::new("t").unwrap());
        Message::new(id, kind, millis(0), "body").into()
    }

    fn refused(can: &Capabilities, outgoing: Outgoing) -> String {
        can.check(&outgoing).unwrap_err().to_string()
    }

    #[test]
    fn unsupported_requests_are_refused() {
        let can = Capabilities::new("small", 4);
        can.check(&outgoing()).unwrap();
        let large = Outgoing::from(outgoing().message.with_body("large"));
        assert!(refused(&can, large).contains("at most 4"));
        let day = Duration::from_secs(86_400);
        assert_eq!(
            refused(&can, outgoing().after(day)),
            "small send: delay is 1 days, small delays messages by 0 s at most"
        );
        assert!(refused(&can, outgoing().once(day)).contains("accepted once are not supported"));
        let key = OrderingKey::new("patient-7").unwrap();
        let keyed = Outgoing::from(outgoing().message.with_ordering_key(key));
        assert!(refused(&can, keyed).contains("ordering keys are not supported"));
        let expiring = Outgoing::from(outgoing().message.with_expires_at(millis(1)));
        assert!(refused(&can, expiring).contains("messages that expire are not supported"));
    }

    #[test]
    fn leases_have_a_range_where_they_expire() {
        let mut can = Capabilities::new("queue", 4);
        (can.shortest_lease, can.longest_lease) = (Duration::from_secs(5), Duration::from_secs(60));
        let refused = can.check_lease(Duration::from_secs(1)).unwrap_err().to_string();
        assert_eq!(refused, "lease is 1 s, queue leases messages for 5 s to 60 s");
        can.leases = Leases::HeldByConnection;
        can.check_lease(Duration::from_secs(1)).unwrap();
    }

    #[test]
    fn every_field_is_in_the_table_once() {
        let can = Capabilities::new("queue", 1 << 20);
        let fields = format!("{can:?}").matches(": ").count();
        assert_eq!(can.rows().len(), fields);
        assert!(can.to_string().contains("max_message_bytes: 1 MiB\n"));
    }
}
