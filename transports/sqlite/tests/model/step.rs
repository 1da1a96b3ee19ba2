//! The possible steps and their probabilities.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{
    Code, ContentType, CorrelationId, Destination, FailedTry, Failure, FailureKind, Ledger,
    MAX_DELAY, Message, MessageId, MessageType, Outgoing, QueueName, Reason, Settlement,
    UncountedFailure, millis,
};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
};

pub(crate) const QUEUES: [&str; 2] = ["lab", "radiology"];
pub(crate) const LEASE: Duration = Duration::from_secs(10);
pub(crate) const MAX_BODY_BYTES: usize = 40;

pub(crate) fn name(queue: &str) -> QueueName {
    QueueName::new(queue).unwrap()
}

/// A possible step. Queues that can be received from are identified by their number.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send { to: Destination, batch: Vec<Outgoing> },
    Receive { queue: usize, max: NonZeroU32 },
    ReceiveAndDrop { queue: usize, max: NonZeroU32 },
    Settle(Vec<(Pick, Settlement, Afterwards)>),
    Extend { which: Pick, lease: Duration, after: Afterwards },
    Elapse(Duration),
    Replay { queue: QueueName, chosen: Chosen },
    Discard { queue: QueueName, chosen: Chosen },
    Reopen,
}

/// One of the existing ones, by its index modulo their number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick(pub(crate) usize);

impl Pick {
    pub(crate) fn of<T>(self, those: &[T]) -> usize {
        self.0 % those.len()
    }
}

/// What happens to the copy of a delivery that is settled or extended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Afterwards {
    Forgotten,
    /// It is used again with its receipt, which is then stale.
    Kept,
    /// It was not used at all: the receipt belongs to another lease.
    Forged,
}

/// A selection of dead letters. Known ones may be gone, or belong to another queue.
#[derive(Debug, Clone)]
pub(crate) enum Chosen {
    All,
    Known(Vec<Pick>),
    Unknown(i64),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let queue = prop_oneof![3 => Just(0_usize), 1 => Just(1_usize)]; // the first queue is used more often
    let max = (1_u32..5).prop_map(|max| NonZeroU32::new(max).unwrap());
    let settled = (pick(), settlement(), afterwards());
    prop_oneof![
        5 => (destination(), vec(outgoing(), 0..5)).prop_map(|(to, batch)| Step::Send { to, batch }),
        6 => (queue.clone(), max.clone()).prop_map(|(queue, max)| Step::Receive { queue, max }),
        1 => (queue, max).prop_map(|(queue, max)| Step::ReceiveAndDrop { queue, max }),
        6 => vec(settled, 1..5).prop_map(Step::Settle),
        2 => (pick(), delay(), afterwards())
            .prop_map(|(which, lease, after)| Step::Extend { which, lease, after }),
        4 => elapsed().prop_map(Step::Elapse),
        2 => (queue_name(), chosen()).prop_map(|(queue, chosen)| Step::Replay { queue, chosen }),
        1 => (queue_name(), chosen()).prop_map(|(queue, chosen)| Step::Discard { queue, chosen }),
        1 => Just(Step::Reopen),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    (0_usize..1_000).prop_map(Pick)
}

fn destination() -> impl Strategy<Value = Destination> {
    let topic = || Destination::Topic { name: name("lab"), key: "hb".to_owned() };
    prop_oneof![30 => queue_name().prop_map(Destination::Queue), 1 => Just(topic())]
}

fn queue_name() -> impl Strategy<Value = QueueName> {
    prop_oneof![15 => Just(name(QUEUES[0])), 5 => Just(name(QUEUES[1])), 1 => Just(name("nowhere"))]
}

fn outgoing() -> impl Strategy<Value = Outgoing> {
    let delay = prop_oneof![40 => delay(), 1 => Just(MAX_DELAY + Duration::from_secs(1))];
    (message(), delay).prop_map(|(message, delay)| Outgoing::from(message).after(delay))
}

/// Any message; sometimes one that is refused, with a body that is too large or a header without a
/// name.
fn message() -> impl Strategy<Value = Message> {
    let envelope = (word(), word(), option::of(word()), option::of(word()), option::of(word()));
    let time = -1_000_000_000_000_i64..10_000_000_000_000;
    let body = prop_oneof![30 => 0..=MAX_BODY_BYTES, 1 => Just(MAX_BODY_BYTES + 1)]
        .prop_flat_map(|bytes| vec(any::<u8>(), bytes));
    let headers = option::weighted(0.2, btree_map(text(), text(), 0..3));
    (envelope, time, body, headers, ledger()).prop_map(|(envelope, time, body, headers, ledger)| {
        let (id, message_type, correlation, cause, content_type) = envelope;
        let id = MessageId::new(id).unwrap();
        let message_type = MessageType::new(message_type).unwrap();
        let mut message = Message::new(id, message_type, millis(time), body);
        message.correlation_id = correlation.map(|id| CorrelationId::new(id).unwrap());
        message.causation_id = cause.map(|id| MessageId::new(id).unwrap());
        message.content_type = content_type.map(|it| ContentType::new(it).unwrap());
        for (name, value) in headers.into_iter().flatten() {
            message = message.with_header(name, value);
        }
        message.ledger = ledger;
        message
    })
}

/// Usually empty; otherwise the ledger of a message from another transport.
fn ledger() -> impl Strategy<Value = Ledger> {
    let event = prop_oneof![Just(None), tries().prop_map(Some)];
    let lived = (vec(event, 0..4), 0_u32..3, 0_u32..2).prop_map(|(events, lost, replays)| {
        let mut ledger = Ledger::default();
        (0..replays).for_each(|_| ledger.replay());
        (0..lost).for_each(|_| ledger.acquire());
        for event in events {
            ledger.acquire();
            match event {
                None => ledger.release(),
                Some(tries) => ledger.fail(tries),
            }
        }
        ledger
    });
    // A sender that knows what failed but counted nothing.
    let bare = tries().prop_map(|tries| Ledger::restored(0, 0, 0, 0, tries));
    prop_oneof![16 => Just(Ledger::default()), 2 => lived, 1 => bare]
}

fn settlement() -> impl Strategy<Value = Settlement> {
    let reason = (code(), text()).prop_map(|(code, text)| Reason::new(code, text));
    prop_oneof![
        2 => Just(Settlement::Complete),
        3 => (delay(), tries()).prop_map(|(after, tries)| Settlement::Retry { after, tries }),
        4 => (reason, tries())
            .prop_map(|(reason, tries)| Settlement::DeadLetter { reason, tries }),
        2 => delay().prop_map(|after| Settlement::Release { after }),
        2 => (delay(), uncounted())
            .prop_map(|(after, failure)| Settlement::Uncounted { after, failure }),
    ]
}

fn uncounted() -> impl Strategy<Value = UncountedFailure> {
    (code(), any::<bool>(), 0..10_000_i64, delay()).prop_map(|(code, suspected, at, waited)| {
        UncountedFailure { at: millis(at), code, suspected, waited }
    })
}

fn code() -> impl Strategy<Value = Code> {
    select(vec![Reason::EXHAUSTED, Reason::NOT_RETRYABLE, Code::UNDECODABLE, Code::TIMEOUT])
}

/// No tries if no handler ran, several with immediate retries, sometimes more than a ledger keeps.
fn tries() -> impl Strategy<Value = Vec<FailedTry>> {
    prop_oneof![20 => vec(failed_try(), 0..3), 1 => vec(failed_try(), 25..40)]
}

fn failed_try() -> impl Strategy<Value = FailedTry> {
    let parts = (select(FailureKind::ALL), code(), text(), 0_u64..5_000, 0_i64..100_000);
    parts.prop_map(|(kind, code, detail, took, at)| {
        let failure = Failure::new(kind, detail).with_code(code);
        FailedTry::new(millis(at), Duration::from_millis(took), &failure)
    })
}

fn afterwards() -> impl Strategy<Value = Afterwards> {
    prop_oneof![
        6 => Just(Afterwards::Forgotten),
        3 => Just(Afterwards::Kept),
        1 => Just(Afterwards::Forged),
    ]
}

fn chosen() -> impl Strategy<Value = Chosen> {
    prop_oneof![
        2 => Just(Chosen::All),
        3 => vec(pick(), 0..4).prop_map(Chosen::Known),
        1 => any::<i64>().prop_map(Chosen::Unknown),
    ]
}

/// Durations near zero, near a lease, below the resolution of the clock, and beyond its range.
fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => Just(Duration::ZERO),
        2 => (0_u64..5_000_000).prop_map(Duration::from_nanos),
        4 => (0_u64..12_000).prop_map(Duration::from_millis),
        1 => select(vec![MAX_DELAY, Duration::MAX]),
    ]
}

fn elapsed() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0_u64..3).prop_map(Duration::from_millis),
        (0_u64..6_000).prop_map(Duration::from_millis),
        Just(LEASE),
        Just(LEASE + Duration::from_millis(1)),
    ]
}

/// A valid name.
fn word() -> impl Strategy<Value = String> {
    let letter = prop_oneof![12 => proptest::char::range('a', 'z'), 1 => any::<char>()];
    let word = vec(letter, 1..4).prop_map(String::from_iter);
    word.prop_filter("a name has no control characters", |text| MessageId::new(text).is_ok())
}

/// Any text: quotes, line ends, zeros, nothing.
fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..5).prop_map(String::from_iter)
}
